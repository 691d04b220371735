"""The hyper-parameters of a configuration file, under Miniagent's names."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

from rl.base.errors import BadFile, UsageError
from rl.config import AgentConfig
from rl.environments.config_file.document import Document, Place, shown

MOST_IN_A_PASS = 8
"""Episodes in one forward pass, unless the file says otherwise."""
_OWN = {each.name: each.name for each in fields(AgentConfig) if each.name != "environment"}
NAMES: dict[str, dict[str, str]] = {
    "model": {"dtype": "precision"},
    "policy": {
        "max_new_tokens": "max_new_tokens",
        "temperature": "temperature",
        "top_p": "top_p",
        "type": "policy_type",
    },
    "rollout": {
        "num_generations": "num_generations",
        "async_workers": "async_rollout_workers",
        "async_rollout_workers": "async_rollout_workers",
    },
    "train": {"num_iters": "max_steps", "lr": "learning_rate", "grad_clip": "max_grad_norm", **_OWN},
    "eval": {"eval_interval": "eval_interval", "num_tasks": "eval_tasks"},
}
"""Section, then key to hyper-parameter."""
EPISODES = "num_episodes_per_iter"
"""Of the section rollout: the episodes of one optimiser step."""
_PRECISIONS = {"auto": "auto", "float32": "fp32", "fp32": "fp32", "bfloat16": "bf16", "bf16": "bf16"}
_LONGEST = 500
"""Characters of a sentence."""
_DEFAULTS = AgentConfig()


def hyper_parameters(document: Document) -> dict[str, Any]:
    """Overrides for AgentConfig. Raises BadFile with the line of what is impossible, or said twice."""
    found: dict[str, Any] = {}
    said: dict[str, Place] = {}
    for section, names in NAMES.items():
        for key, value in document.section(section, None).items():
            place = (section, key)
            for name, right in _meant(document, place, value, names).items():
                if name in said:
                    both = f"{'.'.join(said[name])} and {'.'.join(place)} say the same: leave out one"
                    raise document.refusal(both, place)
                said[name], found[name] = place, right
    try:
        _DEFAULTS.with_overrides(found)
    except UsageError as error:
        named = [said[word] for word in re.findall(r"\w+", str(error)) if word in said]
        raise document.refusal(str(error), *named[:1]) from None
    return found


def _meant(document: Document, place: Place, value: Any, names: dict[str, str]) -> dict[str, Any]:
    section, key = place
    if place == ("rollout", EPISODES):
        return _passes(document, place, value)
    if key not in names:
        return {}
    if place == ("model", "dtype"):
        return {"precision": _precision(document, place, value)}
    return {names[key]: _checked(document, place, names[key], value)}


def _precision(document: Document, place: Place, value: Any) -> str:
    said = document.text(place, value)
    if said in _PRECISIONS:
        return _PRECISIONS[said]
    if said in ("float16", "fp16", "half"):
        what = "model.dtype float16 overflows in training: choose bfloat16 on a GPU that has it, float32, or auto"
        raise document.refusal(what, place)
    raise document.refusal(f"model.dtype must be one of {', '.join(_PRECISIONS)}, not {shown(value)}", place)


def _passes(document: Document, place: Place, value: Any) -> dict[str, int]:
    """Equal parts of at most MOST_IN_A_PASS."""
    most = int(AgentConfig.RANGES["gradient_accumulation"][1])
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or not 1 <= value <= most:
        raise document.refusal(f"{'.'.join(place)} must be a whole number from 1 to {most}, not {shown(value)}", place)
    episodes = int(value)
    together = max(size for size in range(1, MOST_IN_A_PASS + 1) if episodes % size == 0)
    return {"batch_size": together, "gradient_accumulation": episodes // together}


def _checked(document: Document, place: Place, name: str, value: Any) -> Any:
    default = getattr(_DEFAULTS, name)
    if name in AgentConfig.INTEGERS and isinstance(value, float) and value.is_integer():
        value = int(value)
    said = ".".join(place)
    if isinstance(default, bool) and not isinstance(value, bool):
        raise document.refusal(f"{said} must be true or false, not {shown(value)}", place)
    if isinstance(default, int | float) and not isinstance(value, int | float):
        raise document.refusal(f"{said} must be a number, not {shown(value)}", place)
    if isinstance(default, str):
        document.text(place, value)
    try:
        _DEFAULTS.with_overrides({name: value})
    except UsageError as error:
        raise _named(document, place, name, str(error)) from None
    return value


def _named(document: Document, place: Place, name: str, what: str) -> BadFile:
    """Where the sentence begins with our name, the file's takes its place."""
    what = what[:_LONGEST]
    said = ".".join(place)
    return document.refusal(f"{said}{what.removeprefix(name)}" if what.startswith(name) else f"{said}: {what}", place)
