"""How a run is named on the command line."""

from __future__ import annotations

from argparse import ArgumentTypeError
from contextlib import suppress
from pathlib import Path

from django.conf import settings


def number_of_run(text: str) -> int:
    """``text``: a number, or the path of a run's folder or of a checkpoint in it. Raises ArgumentTypeError for a folder that
    belongs to no run."""
    if text.isdecimal():
        return int(text)
    runs_folder = (settings.DATA_DIR / "runs").resolve()
    with suppress(OSError, RuntimeError):  # a name that is too long, links that lead to each other
        folder = Path(text).expanduser().resolve()
        parts = folder.relative_to(runs_folder).parts if folder.is_relative_to(runs_folder) else ()
        if folder.is_dir() and parts and parts[0].isdecimal():
            return int(parts[0])
    raise ArgumentTypeError(
        f"{text:.300} belongs to no run here, whose folders are {runs_folder}/NUMBER; "
        "'manage.py runs' lists them. To train on from weights of elsewhere, give a whole model's folder as --base-model"
    )
