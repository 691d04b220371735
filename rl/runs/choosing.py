"""A run's settings as a trainer may ask for them, and the check that a run has no others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rl import registered
from rl.base.errors import UsageError
from rl.config import TrainingConfig, authority, config_class, find_method
from rl.config.authority import Owner
from rl.dataset_builder import DataOptions
from rl.models import Agent, TrainingRun
from rl.runs.run_options import RunOptions

COMMAND_LINE = "operator"
OF_AGENT = "agent"


@dataclass(frozen=True, slots=True)
class Choice:
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
) -> Choice:
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
    return Choice(config, options, origins)


def with_origins(agent: Agent, config: TrainingConfig, options: RunOptions, by: Owner) -> RunOptions:
    """The options of a new run, which say where each value that is not a trainer's came from: a registered name, the agent,
    or the operator if it was he who made the run. The base model is the agent's of now unless another was asked for."""
    origins = dict(options.origins)
    if not options.base_model:
        options, origins["base_model"] = replace(options, base_model=agent.base_model), OF_AGENT
    if by is Owner.OPERATOR:
        origins = (
            dict.fromkeys(_operators_settings(type(config)(), config.as_dict(), options.as_dict()), COMMAND_LINE)
            | origins
        )
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
            raise UsageError(
                f"run {run.pk} has {_article(name)} that nobody is known to have set who may: it was made before Ratchet "
                f"noted that. Start a new run, or say it again: manage.py {command} --agent {run.agent.name} "
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


def _article(name: str) -> str:
    word = name.replace("_", " ")
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"
