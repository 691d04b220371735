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
    options: dict[str, Any] = field(default_factory=dict)
    """Of RunOptions: what came with the registered names, and their ``origins``."""


def choose(
    agent: Agent, method: str, given: Mapping[str, Any] | None = None, *, base_model: str = "", preset: str = ""
) -> Choice:
    """The agent's settings (or the preset's), and over them a trainer's. Names, such as ``base_model``, become what is
    registered under them now.

    Raises UsageError for what is not a trainer's, or not registered.
    """
    start = agent.training_config(method, preset)
    given = given or {}
    authority.require_trainers(given)
    config = start.with_overrides({**authority.without_choices(given), **dict.fromkeys(authority.choices(given))})
    asked = {**({} if preset else authority.choices(agent.training_overrides)), **authority.choices(given)}
    names = {name: value for name, value in asked.items() if name in config.as_dict()}
    found = {name: registered.LOOKUPS[name](value) for name, value in names.items()}
    options = {option: value for each in found.values() for option, value in each.options.items()}
    origins = {**names, **{option: names[name] for name, each in found.items() for option in each.options}}
    if base_model:
        options["base_model"], origins["base_model"] = registered.base_model(base_model).value, base_model
    config = config.with_overrides({name: each.value for name, each in found.items()})
    return Choice(config, {**options, "origins": origins})


def with_origins(agent: Agent, config: TrainingConfig, options: RunOptions, by: Owner) -> RunOptions:
    """The options of a new run, which say where each value that is not a trainer's came from: a registered name, the agent,
    or the operator if it was he who made the run. The base model is the agent's of now unless another was asked for."""
    origins = dict(options.origins)
    if not options.base_model and agent.base_model:
        options, origins["base_model"] = replace(options, base_model=agent.base_model), OF_AGENT
    if by is Owner.OPERATOR:
        origins = dict.fromkeys(_reserved(type(config)(), config.as_dict(), options.as_dict()), COMMAND_LINE) | origins
    return replace(options, origins=origins)


def vouch(run: TrainingRun, named: Collection[str]) -> None:
    """The operator, at a terminal, said these values of a stopped run again."""
    reserved = _reserved(config_class(run.method)(), run.config, run.options)
    origins = {**run.options.get("origins", {}), **{name: COMMAND_LINE for name in reserved if name in named}}
    run.options = {**run.options, "origins": origins}
    TrainingRun.objects.filter(pk=run.pk).update(options=run.options)


def require_origins(run: TrainingRun) -> None:
    """Raises UsageError for a run with a value that no operator is known to have set."""
    origins = run.options.get("origins", {})
    for name in _reserved(config_class(run.method)(), run.config, run.options):
        if name not in origins and not (name == "base_model" and run.options[name] == run.agent.base_model):
            command = find_method(run.method).command
            raise UsageError(
                f"run {run.pk} has {_article(name)} that nobody is known to have set who may: it was made before Ratchet "
                f"noted that. Start a new run, or say it again: manage.py {command} --agent {run.agent.name} "
                f"--resume {run.pk}, with --{'config' if name == 'environment' else name.replace('_', '-')}"
            )


def _reserved(default: TrainingConfig, config: Mapping[str, Any], options: Mapping[str, Any]) -> list[str]:
    told = {name: value for name, value in options.items() if name not in ("data", "origins")}
    usual = RunOptions(data=DataOptions()).as_dict()
    data = authority.reserved(authority.DATA_OPTIONS, options.get("data", {}), asdict(DataOptions()))
    return [
        *authority.reserved(authority.HYPER_PARAMETERS, config, default.as_dict()),
        *authority.reserved(authority.RUN_OPTIONS, told, usual),
        *data,
    ]


def _article(name: str) -> str:
    word = name.replace("_", " ")
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"
