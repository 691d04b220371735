"""Files of other systems, one module for each format.

A module reads (``read(path)``), and ``rl.collect.ingest.importing`` stores what it yields; one whose files belong
together has a ``run`` of its own.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from rl.base.names import require_known
from rl.collect.importers.report import ImportReport

IMPORTERS: dict[str, str] = {
    "command_center": "rl.collect.importers.command_center",
    "trace_file": "rl.collect.importers.trace_file",
    "openai_chat": "rl.collect.importers.openai_chat",
    "openai_preference": "rl.collect.importers.openai_preference",
    "sharegpt": "rl.collect.importers.sharegpt",
    "trl": "rl.collect.importers.trl",
    "langfuse_score": "rl.collect.importers.langfuse_score",
    "openwebui_feedback": "rl.collect.importers.openwebui_feedback",
}
"""``rl.from_systems`` adds its own when the app starts."""
BY_ITSELF = "command_center"
"""The format whose module has ``run``."""


def importer(name: str) -> Any:
    """The ``run`` of a module that has one. Raises UsageError that lists the known formats."""
    return _module(name).run


def reader(name: str) -> ModuleType:
    """A module with ``read(path)``, which yields records; ``SUFFIXES``, where it has them, are those that it looks for in a
    folder, and a module without takes folders itself. Raises UsageError."""
    return _module(name)


def _module(name: str) -> ModuleType:
    require_known("format", name, IMPORTERS)
    return import_module(IMPORTERS[name])


__all__ = ["BY_ITSELF", "IMPORTERS", "ImportReport", "importer", "reader"]
