"""What a run is told: its settings as a trainer may ask for them, and the check that it has no others."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from rl import dataset_builder, registered
from rl.base.errors import UsageError
from rl.base.names import require_known
from rl.config import TrainingConfig, authority, config_class, find_method
from rl.config.authority import Owner
from rl.dataset_builder import DataOptions
from rl.models import Agent, TrainingRun
from rl.runs.processes.launch import Launch

TRACKERS = {
    "tensorboard": ("tensorboard", "tensorboardX"),
    "trackio": ("trackio",),
    "mlflow": ("mlflow",),
    "wandb": ("wandb",),
}
"""Name to the packages of which one must be there."""


def tracker_names(text: str) -> tuple[str, ...]:
    """``text``: names with commas between. Raises UsageError for an unknown name and a missing package."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        require_known("tracker of --report-to", name, TRACKERS)
        if not any(importlib.util.find_spec(package) for package in TRACKERS[name]):
            package = TRACKERS[name][0]
            raise UsageError(f"--report-to {name} needs the package {package}: pip install {package}")
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Where a run's data comes from, and what happens after training."""

    data: dataset_builder.DataOptions
    source: str = "db"
    """db; file: a Command Center export that is not imported; prompts: a file of them, with another of held-out ones as its
    ratings."""
    data_file: str = ""
    ratings_file: str = ""
    base_model: str = ""
    """Base model to use instead of the agent's."""
    output_dir: str = ""
    """A copy of the adapter, or of the model, goes here too."""
    export: bool = False
    """GGUF, if the gate promotes the version."""
    quantization: str = "q8_0"
    model_name: str = ""
    deploy: str = ""
    """The target that serves the version, if the gate promotes it: ollama or llama_cpp."""
    rewards: str = ""
    """Names, with commas between: what rewards answers that are generated while training. Empty: all of the agent's."""
    reward_model: str = ""
    """Directory or version of a reward model that rewards generated answers instead of ``rewards``."""
    grader: Mapping[str, Any] = field(default_factory=dict)
    """One name of ``rl.scoring.rollouts.GRADERS`` to the JSON of a grader, which rewards generated answers instead of
    ``rewards``."""
    answer_schema: Mapping[str, Any] = field(default_factory=dict)
    """JSON schema that answers keep to that are generated while training; empty: none."""
    keep_passes: int = 0
    """The adapters of so many passes before the last are kept beside the version."""
    eval_prompts: int = 0
    """Held-out prompts whose fresh answers are rewarded on the way; 0: none."""
    eval_every: int = 0
    """Steps between two such looks; 0: five in all."""
    report_to: str = ""
    """Experiment trackers, with commas between."""
    tracked_as: Mapping[str, Any] = field(default_factory=dict)
    """What trackers list the run under, where it is not their usual: ``project``, ``name``, ``tags``."""
    dataset_dir: str = ""
    """Folder of a data set of tasks, for agents with tools; empty: the tasks of the demo."""
    train_split: str = "train"
    eval_split: str = "eval"
    """Name of the split whose tasks are held out for evaluation; empty: none."""
    sweep: bool = False
    """Three learning rates are tried before the training."""
    num_processes: int = 1
    accelerate_config: str = ""
    name_by_feedback: bool = False
    """The number in the version's name is that of the feedback items it learned from, as N3 has it."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Who set what only the operator may set: field of these or of the hyper-parameters to ``operator``, ``agent``, or the
    registered name that it was chosen by."""

    @property
    def files(self) -> tuple[str, str | None] | None:
        """Data and ratings of a Command Center export; None where the rows come from the database."""
        return (self.data_file, self.ratings_file or None) if self.source == "file" else None

    def base_model_of(self, agent: Agent) -> str:
        return self.base_model or agent.base_model

    @property
    def launch(self) -> Launch:
        """Raises UsageError."""
        return Launch(self.num_processes, self.accelerate_config)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RunOptions:
        known = {field.name for field in fields(cls)}
        rest = {name: value for name, value in values.items() if name in known and name != "data"}
        return cls(data=dataset_builder.DataOptions(**values["data"]), **rest)


COMMAND_LINE = "operator"
OF_AGENT = "agent"


@dataclass(frozen=True, slots=True)
class ChosenConfig:
    config: TrainingConfig
    options: Mapping[str, str] = field(default_factory=dict)
    """Fields of RunOptions that came with the registered names."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """As in RunOptions: hyper-parameter or option to the registered name that it was chosen by."""

    def apply_to(self, options: RunOptions) -> RunOptions:
        values: dict[str, Any] = {**self.options, "origins": self.origins}
        return replace(options, **values)


def choose(
    agent: Agent, method: str, overrides: Mapping[str, Any] | None = None, *, base_model: str = "", preset: str = ""
) -> ChosenConfig:
    """The agent's settings (or the preset's), and over them a trainer's. Names, such as ``base_model``, become what is
    registered under them now.

    Raises UsageError for what is not a trainer's, or not registered.
    """
    start = agent.training_config(method, preset)
    overrides = overrides or {}
    authority.require_trainers(overrides)
    own_choices = authority.choices(overrides)
    config = start.with_overrides({**authority.without_choices(overrides), **dict.fromkeys(own_choices)})
    choices = {**({} if preset else authority.choices(agent.training_overrides)), **own_choices}
    names = {field_name: name for field_name, name in choices.items() if field_name in config.as_dict()}
    entries = {field_name: registered.LOOKUPS[field_name](name) for field_name, name in names.items()}
    options = {option: value for entry in entries.values() for option, value in entry.options.items()}
    origins = names | {option: names[field_name] for field_name, entry in entries.items() for option in entry.options}
    if base_model:
        options["base_model"], origins["base_model"] = registered.base_model(base_model).value, base_model
    config = config.with_overrides({field_name: entry.value for field_name, entry in entries.items()})
    return ChosenConfig(config, options, origins)


def with_origins(agent: Agent, config: TrainingConfig, options: RunOptions, by: Owner) -> RunOptions:
    """The options of a new run, which say where each value that is not a trainer's came from: a registered name, the agent,
    or the operator if it was he who made the run. The base model is the agent's of now unless another was asked for."""
    origins = dict(options.origins)
    if not options.base_model:
        options, origins["base_model"] = replace(options, base_model=agent.base_model), OF_AGENT
    if by is Owner.OPERATOR:
        own = _operators_settings(type(config)(), config.as_dict(), options.as_dict())
        origins = dict.fromkeys(own, COMMAND_LINE) | origins
    return replace(options, origins=origins)


def vouch(run: TrainingRun, named: Collection[str]) -> None:
    """The operator, at a terminal, said these values of a stopped run again."""
    reserved = _operators_settings(config_class(run.method)(), run.config, run.options)
    origins = {**run.options.get("origins", {}), **{name: COMMAND_LINE for name in reserved if name in named}}
    run.options = {**run.options, "origins": origins}
    TrainingRun.objects.filter(pk=run.pk).update(options=run.options)


def require_origins(run: TrainingRun) -> None:
    """Raises UsageError for a run with a value that no operator is known to have set."""
    origins = run.options.get("origins", {})
    for name in _operators_settings(config_class(run.method)(), run.config, run.options):
        if name not in origins and not (name == "base_model" and run.options[name] == run.agent.base_model):
            command = find_method(run.method).command
            value = f"{'an' if name[0] in 'aeiou' else 'a'} {name.replace('_', ' ')}"
            raise UsageError(
                f"run {run.pk} has {value} that nobody is known to have set who may: it was made before Ratchet noted that. "
                f"Start a new run, or say it again: manage.py {command} --agent {run.agent.name} "
                f"--resume {run.pk}, with --{'config' if name == 'environment' else name.replace('_', '-')}"
            )


def _operators_settings(default: TrainingConfig, config: Mapping[str, Any], options: Mapping[str, Any]) -> list[str]:
    """Names of the values that only the operator can have set."""
    of_run = {name: value for name, value in options.items() if name not in ("data", "origins")}
    usual = RunOptions(data=DataOptions()).as_dict()
    return [
        *authority.operators_settings(authority.HYPER_PARAMETERS, config, default.as_dict()),
        *authority.operators_settings(authority.RUN_OPTIONS, of_run, usual),
        *authority.operators_settings(authority.DATA_OPTIONS, options.get("data", {}), asdict(DataOptions())),
    ]
