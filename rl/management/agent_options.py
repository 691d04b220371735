"""What ``train_agent`` is asked for: a configuration file, and options that override it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rl.base.errors import UsageError
from rl.base.slugs import check_slug
from rl.config import AgentConfig
from rl.environments.config_file import read_agent_file
from rl.hardware import detect_hardware
from rl.models import Agent
from rl.registered import environment_of

_PLACES = ("dataset_dir", "train_split", "eval_split")
NONE_HELD_OUT = ("eval_split", "")


def with_file(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, with the file's values where none was given; ``of_file`` names those. Raises UsageError or BadFile."""
    path = Path(options["config"]).expanduser()
    file = read_agent_file(path)
    places = {name: getattr(file, name) for name in _PLACES}
    merged = {**file.hyper, **places, "base_model": file.base_model}
    given = {
        name: value for name, value in options.items() if value not in (None, "") or (name, value) == NONE_HELD_OUT
    }
    found = {**options, **merged, **given, "config": None, "of_file": merged.keys() - given.keys()}
    found["agent"] = options["agent"] or file.agent or path.stem
    found["environment"] = asdict(environment_of(file))
    if found["dataset_dir"]:
        found["dataset_dir"] = str(Path(found["dataset_dir"]).expanduser().resolve())
    return found


def agent_for(options: Mapping[str, Any]) -> Agent:
    """The agent of that name, made where there is none, unless a run is to be resumed. Raises UsageError for a name that
    none can have."""
    name = options["agent"]
    if options["resume"] is not None:
        return Agent.by_name(name)
    if found := Agent.objects.filter(name__iexact=name).first():
        return found
    defaults = AgentConfig()
    return Agent.objects.create(
        name=check_slug(name, "agent name"),
        description="Learns from tasks, with tools.",
        base_model=options["base_model"],
        context_length=defaults.max_length,
        response_length=defaults.max_new_tokens,
    )


def require_file(options: Mapping[str, Any]) -> None:
    if not options["config"] and not (options["agent"] and options["resume"] is not None):
        raise UsageError("--config is missing: a YAML file that says which environment, see docs/agents.md")


def require_device(name: str | None) -> None:
    """Raises UsageError for a GPU that is not here."""
    if name in ("cuda", "mps") and name not in {gpu.backend.replace("rocm", "cuda") for gpu in detect_hardware().gpus}:
        raise UsageError(f"there is no device {name} here: leave it out, or take cpu")
