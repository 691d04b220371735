"""Files of other systems, one module for each format.

A module reads (``read(path)``), and ``rl.collect.ingest.importing`` stores what it yields; one whose files belong
together has a ``run`` of its own.
"""

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
from rl.models import Agent

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


AGENT_DEFAULTS: dict[str, dict[str, Any]] = {"command_center": {"pair_type": Agent.PairType.BOTH}}
"""Format to fields of an agent that comes from there, as its documents say; ``rl.from_systems`` adds its own when the app
starts."""


def settle_in(agent: Agent, form: str, *, keep: bool = True) -> list[str]:
    """Gives an agent that has neither answers nor training sets these fields, where it has what every new agent has.

    ``keep``: saves it, where it is stored. Names of the fields that changed.
    """
    if agent.pk is not None and (agent.traces.exists() or agent.training_sets.exists()):
        return []
    usual, changed = Agent(), {}
    for name, value in AGENT_DEFAULTS.get(form, {}).items():
        if getattr(agent, name) == getattr(usual, name) != value:
            changed[name] = value
            setattr(agent, name, value)
    if changed and keep and agent.pk is not None:
        agent.save(update_fields=[*changed])
    return [*changed]


def reader(name: str) -> ModuleType:
    """A module with ``read(path)``, which yields records; ``SUFFIXES``, where it has them, are those that it looks for in a
    folder, and a module without takes folders itself. Raises UsageError that lists the known formats."""
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
