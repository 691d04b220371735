"""Files of other systems, one module for each format.

A module reads (``read(path)``), and ``rl.collect.ingest.importing`` stores what it yields; one whose files belong
together has a ``run`` of its own."""

# ruff: noqa: F401  for others to import from here
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from rl.base.errors import UsageError
from rl.base.names import require_known
from rl.collect.importers.report import ImportReport

Read = Callable[[Path], Iterator[Any]]

IMPORTERS: dict[str, str] = {
    "command_center": "rl.collect.importers.command_center",
    "trace_file": "rl.collect.importers.trace_file",
    "openai_chat": "rl.collect.importers.openai_chat",
    "openai_preference": "rl.collect.importers.openai_preference",
    "sharegpt": "rl.collect.importers.sharegpt",
    "open_assistant": "rl.collect.importers.open_assistant",
    "trl": "rl.collect.importers.trl",
    "langfuse_score": "rl.collect.importers.langfuse_score",
    "openwebui_feedback": "rl.collect.importers.openwebui_feedback",
}
"""``rl.from_systems`` adds its own when the app starts."""
BY_ITSELF = "command_center"
"""The format whose module has ``run``."""


def importer(name: str) -> Any:
    """The ``run`` of a module that has one. Raises UsageError that lists the known formats."""
    return reader(name).run


def reader(name: str) -> ModuleType:
    """A module with ``read(path)``, which yields records; ``SUFFIXES``, where it has them, are those that it looks for in a
    folder, and a module without takes folders itself. Raises UsageError."""
    require_known("format", name, IMPORTERS)
    return import_module(IMPORTERS[name])


def scaled_reader(name: str, scales: Sequence[str]) -> Read:
    """``read`` of a format. ``scales``: ``1..5`` or ``user-rating=1..5``, for the format whose module has ``read_scales``.
    Raises UsageError."""
    module = reader(name)
    if not scales:
        return cast(Read, module.read)
    if not hasattr(module, "read_scales"):
        raise UsageError(f"--scale says what the scores of langfuse_score mean; {name} has none")
    return partial(module.read, scales=module.read_scales(scales))
