"""The whole file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rl.base.errors import UsageError
from rl.environments import environment_class
from rl.environments.config_file.document import Document, read_document
from rl.environments.config_file.hyper import EPISODES, NAMES, hyper_parameters
from rl.environments.options import option_types
from rl.environments.settings import TOOLS, EnvironmentSettings

_SPLITS = {"train_split": "train", "eval_split": "eval"}
_SECTIONS = ("agent", "model", "policy", "env", "tools", "rollout", "train", "eval", "data")


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
    return _with_tools(document, settings)


def _with_tools(document: Document, settings: EnvironmentSettings) -> EnvironmentSettings:
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
