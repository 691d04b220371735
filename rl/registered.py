"""What the operator registered under names, for people and programs that may only choose: BASE_MODELS, INFERENCE_SERVERS
and the files of ENVIRONMENTS_DIR. A name is looked up among those; neither disk nor network is asked for another.

Imports: base, config, environments; Django."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from django.conf import settings

from rl.base.errors import BadFile, UsageError
from rl.config.embedded_models import EMBEDDED_MODELS
from rl.environments.config_file import AgentFile, read_agent_file
from rl.environments.settings import EnvironmentSettings

MOST_SHOWN = 20
"""Names that a refusal lists."""
_SETTINGS = {
    "base_model": ("base model", "BASE_MODELS"),
    "vllm_server": ("inference server", "INFERENCE_SERVERS"),
    "environment": ("environment", "a file in ENVIRONMENTS_DIR"),
}


@dataclass(frozen=True, slots=True)
class Registered:
    """What a name stands for: the value of the field, and options of the run that come with it."""

    value: Any
    options: Mapping[str, str] = field(default_factory=dict)


def base_model(name: str) -> Registered:
    """A hub id or a folder. Raises UsageError."""
    return Registered(_look_up("base_model", name))


def environment(name: str) -> Registered:
    """Settings of an environment, with its tools, and where its tasks are. Raises UsageError, and BadFile for the operator's
    file."""
    path = _look_up("environment", name)
    file = read_agent_file(path)
    if file.agent or file.base_model or file.hyper:
        raise BadFile(path, "holds more than an environment: of a registered one only env, tools and data are read")
    options = {"dataset_dir": file.dataset_dir, "train_split": file.train_split, "eval_split": file.eval_split}
    if options["dataset_dir"]:
        options["dataset_dir"] = str(Path(options["dataset_dir"]).resolve())
    return Registered(asdict(environment_of(file)), options)


def environment_file(name: str) -> Path:
    """The operator's file, which has nothing but an environment. Raises as ``environment``."""
    environment(name)
    path: Path = _look_up("environment", name)
    return path


LOOKUPS: Mapping[str, Callable[[str], Registered]] = {
    "base_model": base_model,
    "vllm_server": lambda name: Registered(_look_up("vllm_server", name)),
    "environment": environment,
}
"""Field that takes a registered name, to the function that looks the name up and raises UsageError. The inference server
is the address of vLLM."""


def environment_files() -> dict[str, Path]:
    """Name to file; the name is the file's, without its ending."""
    folder = settings.ENVIRONMENTS_DIR
    files = sorted(file for ending in ("yaml", "yml") for file in folder.glob(f"*.{ending}")) if folder.is_dir() else []
    return {file.stem: file for file in files}


def environment_of(file: AgentFile) -> EnvironmentSettings:
    return replace(file.environment, cache_dir=str(settings.DATA_DIR / "search_cache"))


def choices_of(field: str) -> Mapping[str, Any]:
    """The names that the field may be set to, with what is registered under each."""
    if field == "environment":
        return environment_files()
    base_models = {**{name: name for name in EMBEDDED_MODELS}, **settings.BASE_MODELS}
    return {"base_model": base_models, "vllm_server": settings.INFERENCE_SERVERS}[field]


def require(choices: Mapping[str, str]) -> None:
    """Field to name. Raises UsageError for a name that is not registered; what it stands for is not looked at."""
    for field_name, name in choices.items():
        _look_up(field_name, name)


def _look_up(field_name: str, name: str) -> Any:
    registered = choices_of(field_name)
    if name in registered:
        return registered[name]
    noun, where = _SETTINGS[field_name]
    names = ", ".join([*registered][:MOST_SHOWN]) or "none yet"
    raise UsageError(
        f"no {noun} is registered under the name {name[:100]!r}; registered: {names}. "
        f"The operator registers one with {where}"
    )
