"""The whole file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from rl.base.errors import UsageError
from rl.config import AgentConfig
from rl.config.fields import integers_of, ranges_of
from rl.environments import environment_class
from rl.environments.config_file.document import Document, KeyPath, describe_value, read_document
from rl.environments.settings import TOOLS, EnvironmentSettings, option_types

_SPLITS = {"train_split": "train", "eval_split": "eval"}
_SECTIONS = ("agent", "model", "policy", "env", "tools", "rollout", "train", "eval", "data")
MOST_IN_A_PASS = 8
"""Episodes in one forward pass, unless the file says otherwise."""
_OWN = {entry.name: entry.name for entry in fields(AgentConfig) if entry.name != "environment"}
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
"""Key of the section rollout: the episodes of one optimiser step."""
_PRECISIONS = {"auto": "auto", "float32": "fp32", "fp32": "fp32", "bfloat16": "bf16", "bf16": "bf16"}
_DEFAULTS = AgentConfig()


@dataclass(frozen=True, slots=True)
class AgentFile:
    agent: str = ""
    """Whose model it is."""
    base_model: str = ""
    hyper: Mapping[str, Any] = field(default_factory=dict)
    """Overrides for AgentConfig."""
    environment: EnvironmentSettings = field(default_factory=EnvironmentSettings)
    """Checked."""
    dataset_dir: str = ""
    """There is such a folder; empty: none was named."""
    train_split: str = "train"
    eval_split: str = "eval"


def read_agent_file(path: Path) -> AgentFile:
    """Raises BadFile that names the line, the key, and what would be right."""
    return agent_file_of(read_document(path))


def agent_file_of(document: Document) -> AgentFile:
    """Raises as ``read_agent_file``."""
    document.require_known(document.values, _SECTIONS)
    document.section("model", ("name", *NAMES["model"]))
    document.section("rollout", (EPISODES, *NAMES["rollout"]))
    for section in ("policy", "train", "eval"):
        document.section(section, tuple(NAMES[section]))
    model = document.section("model", None)
    return AgentFile(
        agent=document.text(("agent",), document.values.get("agent", "")),
        base_model=document.text(("model", "name"), model.get("name", "")),
        hyper=hyper_parameters(document),
        environment=_environment(document),
        **_data(document),
    )


def _environment(document: Document) -> EnvironmentSettings:
    options = document.section("env", None)
    kind = document.text(("env", "type"), options.pop("type", EnvironmentSettings().type))
    try:
        kind_of = environment_class(kind)
        known = option_types(kind_of)
    except UsageError as error:
        raise document.refusal(f"env.type: {error}", ("env", "type")) from None
    document.require_known(options, ("type", *known), "env")
    options |= {key: str(_beside(document, str(options.get(key, ""))).resolve()) for key in kind_of.paths}
    try:
        settings = EnvironmentSettings(kind, options).check()
    except UsageError as error:
        raise document.refusal_about(str(error), ("env",)) from None
    tools = document.section("tools", TOOLS)
    try:
        search = tools.get("search")
        if isinstance(search, dict) and isinstance(search.get("corpus"), str) and search["corpus"]:
            tools["search"] = {**search, "corpus": str(_beside(document, search["corpus"]))}
        return EnvironmentSettings(settings.type, settings.options, tools).check()
    except UsageError as error:
        raise document.refusal_about(str(error), ("tools",)) from None


def _data(document: Document) -> dict[str, str]:
    section = document.section("data", ("dataset_dir", *_SPLITS))
    splits = {key: document.text(("data", key), section.get(key, default)) for key, default in _SPLITS.items()}
    key_path = ("data", "dataset_dir")
    folder_name = document.text(key_path, section.get("dataset_dir", ""))
    folder = _beside(document, folder_name)
    if folder_name and not folder.is_dir():
        raise document.refusal(
            f"data.dataset_dir must be a folder with files of tasks, there is none at {folder}", key_path
        )
    return {"dataset_dir": str(folder) if folder_name else "", **splits}


def _beside(document: Document, path: str) -> Path:
    """Relative to the folder of the configuration file."""
    return document.path.parent / Path(path).expanduser()


def hyper_parameters(document: Document) -> dict[str, Any]:
    """Overrides for AgentConfig. Raises BadFile with the line of what is impossible, or said twice."""
    overrides: dict[str, Any] = {}
    sources: dict[str, KeyPath] = {}
    for section, names in NAMES.items():
        for key, value in document.section(section, None).items():
            key_path = (section, key)
            translated: dict[str, Any]
            if key_path == ("rollout", EPISODES):
                translated = _passes(document, key_path, value)
            elif key_path == ("model", "dtype"):
                translated = {"precision": _precision(document, key_path, value)}
            elif key in names:
                translated = {names[key]: _check_value(document, key_path, names[key], value)}
            else:
                continue
            for name, right in translated.items():
                if name in sources:
                    both = f"{'.'.join(sources[name])} and {'.'.join(key_path)} say the same: leave out one"
                    raise document.refusal(both, key_path)
                sources[name], overrides[name] = key_path, right
    try:
        _DEFAULTS.with_overrides(overrides)
    except UsageError as error:
        mentioned = [sources[word] for word in re.findall(r"\w+", str(error)) if word in sources]
        raise document.refusal(str(error), *mentioned[:1]) from None
    return overrides


def _precision(document: Document, key_path: KeyPath, value: Any) -> str:
    dtype = document.text(key_path, value)
    if dtype in _PRECISIONS:
        return _PRECISIONS[dtype]
    if dtype in ("float16", "fp16", "half"):
        what = "model.dtype float16 overflows in training: choose bfloat16 on a GPU that has it, float32, or auto"
        raise document.refusal(what, key_path)
    raise document.refusal(
        f"model.dtype must be one of {', '.join(_PRECISIONS)}, not {describe_value(value)}", key_path
    )


def _passes(document: Document, key_path: KeyPath, value: Any) -> dict[str, int]:
    """Equal parts of at most MOST_IN_A_PASS."""
    most = int(ranges_of(AgentConfig)["gradient_accumulation"][1])
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or not 1 <= value <= most:
        raise document.refusal(
            f"{'.'.join(key_path)} must be a whole number from 1 to {most}, not {describe_value(value)}", key_path
        )
    episodes = int(value)
    together = max(size for size in range(1, MOST_IN_A_PASS + 1) if episodes % size == 0)
    return {"batch_size": together, "gradient_accumulation": episodes // together}


def _check_value(document: Document, key_path: KeyPath, name: str, value: Any) -> Any:
    default = getattr(_DEFAULTS, name)
    if name in integers_of(AgentConfig) and isinstance(value, float) and value.is_integer():
        value = int(value)
    key = ".".join(key_path)
    if isinstance(default, bool) and not isinstance(value, bool):
        raise document.refusal(f"{key} must be true or false, not {describe_value(value)}", key_path)
    if isinstance(default, int | float) and not isinstance(value, int | float):
        raise document.refusal(f"{key} must be a number, not {describe_value(value)}", key_path)
    if isinstance(default, str):
        document.text(key_path, value)
    try:
        _DEFAULTS.with_overrides({name: value})
    except UsageError as error:
        what = str(error)[:500]  # where the sentence begins with our name, the file's takes its place
        sentence = f"{key}{what.removeprefix(name)}" if what.startswith(name) else f"{key}: {what}"
        raise document.refusal(sentence, key_path) from None
    return value
