"""The model that an agent starts from: what a person set, or the tiny embedded one, built on first use."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings

from rl.base.leaves import leaf
from rl.base.records import Report
from rl.lm.model_path import check_model_path

TINY_MODEL = "rl.lm.tiny_model"


def tiny_directory() -> Path:
    return settings.DATA_DIR / "base_models" / "tiny"


def resolve(base_model: str, report: Report) -> str:
    """A directory or hub id that can be loaded. Empty stands for the tiny embedded model.

    Raises UsageError for what can be neither, before anything heavy is imported.
    """
    if base_model:
        return check_model_path(base_model)
    directory = tiny_directory()
    if not (directory / "config.json").exists():
        report("stage", {"name": "building the tiny base model"})
        leaf(TINY_MODEL).build(directory, report)
    return str(directory)
