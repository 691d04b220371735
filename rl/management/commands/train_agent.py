"""Train agents with tools on tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction
from rich.table import Table

from rl.base.errors import UsageError
from rl.base.slugs import check_slug
from rl.config import AgentConfig, TrainingConfig
from rl.environments.config_file import agent_file_of, read_document
from rl.from_systems.miniagent import command_line
from rl.from_systems.miniagent.config_file import translate
from rl.from_systems.miniagent.tasks import are_miniagents
from rl.hardware import detect_hardware, require_device
from rl.lm import base_models
from rl.management import training_options
from rl.management.base import RatchetCommand
from rl.management.options import CommandOptions, add_arguments, argument, option
from rl.management.tables import task_table
from rl.management.training import train_command
from rl.models import Agent
from rl.models.agents import default_base_model
from rl.registered import environment_file, environment_of
from rl.runs.run import RunOptions, tasks_of

NONE_HELD_OUT = ("eval_split", "")
NO_FILE = (
    "--config is missing: a YAML file that says which environment, see docs/agents.md; or --environment, for one in "
    "ENVIRONMENTS_DIR"
)


class EpisodeGroup(CommandOptions):
    policy_type: str | None = option(
        choices=(*AgentConfig.CHOICES["policy_type"], command_line.HUGGINGFACE), help="how tools are written"
    )
    num_generations: int | None = option(help="episodes of a task, compared with each other")
    async_rollout_workers: int | None = option(help="processes in which environments run")
    temperature: float | None = option(help="of sampling; 1 is the model's own")
    max_new_tokens: int | None = option(help="most tokens of one turn")
    beta: float | None = option(help="weight of the divergence from the base model")
    device: str | None = option(help="to train on: auto, cpu, cuda, cuda:0, mps (auto)")


class AgentOptions(training_options.TrainOptions, training_options.TaskGroup, EpisodeGroup, training_options.VllmGroup):
    agent: str | None = option(
        "--agent-type", help="whose model it is, made if there is none; default: the file's name"
    )
    config: str | None = option(
        one_of="where", metavar="FILE", help="YAML: model, policy, env, rollout, train, eval, tools"
    )
    environment_name: str = argument(
        "--environment", one_of="where", default="", metavar="NAME", help="of a file in ENVIRONMENTS_DIR"
    )
    base_model: str = option("--model", default="", help="hub id or directory; default: the file's")
    model_path: str = option(default="", metavar="FOLDER", help="folder of the model, as --model")
    hf_model_name: str = option(default="", help="hub id, as --model; for --policy-type huggingface")


def with_file(options: AgentOptions, path: Path) -> tuple[AgentOptions, dict[str, Any], list[str]]:
    """The options, with the file's values where none was given; all that the file settles: hyper-parameters without an
    option too; notes for who wrote it. Raises UsageError or BadFile."""
    document, notes = read_document(path), []
    if translation := translate(document):
        document, notes = translation.document, list(translation.notes)
    file = agent_file_of(document)
    values = {
        **file.hyper,
        "base_model": file.base_model,
        "dataset_dir": file.dataset_dir,
        "train_split": file.train_split,
        "eval_split": file.eval_split,
        "environment": asdict(environment_of(file)),
    }
    if translation:
        defaults = command_line.defaults_for(file, None if options.base_model else options.policy_type)
        values |= {"dataset_dir": defaults.dataset_dir, "preview_tasks": defaults.preview_tasks}
        values["base_model"] = defaults.base_model or file.base_model
        notes += () if options.dataset_dir else defaults.notes
    settled = {name: value for name, value in values.items() if not _is_given(options, name)}
    with_options = {field.name: settled[field.name] for field in fields(options) if field.name in settled}
    settled.pop("preview_tasks", None)
    merged = replace(options, config=None, agent=options.agent or file.agent or path.stem, **with_options)
    if merged.dataset_dir:
        merged = replace(merged, dataset_dir=str(Path(merged.dataset_dir).expanduser().resolve()))
    return merged, settled, [*notes, *_by_tasks(merged, settled["environment"])]


def _by_tasks(options: AgentOptions, environment: dict[str, Any]) -> list[str]:
    """Sets in the environment what its tasks mean. Notes."""
    is_open = environment["type"] == "code_exec" and "reward_on" not in environment["options"]
    if not (is_open and options.dataset_dir and are_miniagents(Path(options.dataset_dir), options.train_split)):
        return []
    environment["options"] = {**environment["options"], "reward_on": "tool_call"}
    return ["the tasks are Miniagent's: env has reward_on tool_call unless it says otherwise"]


def _is_given(options: AgentOptions, name: str) -> bool:
    value = getattr(options, name, None)
    return value not in (None, "") or (name, value) == NONE_HELD_OUT


def agent_for(options: AgentOptions) -> Agent:
    """The agent of that name, made where there is none, unless a run is to be resumed. Raises UsageError for a name that
    none can have."""
    name = options.agent
    assert name is not None  # noqa: S101  run and with_file see to it
    if options.resume is not None:
        return Agent.by_name(name)
    if agent := Agent.objects.filter(name__iexact=name).first():
        return agent
    defaults = AgentConfig()
    return Agent.objects.create(
        name=check_slug(name, "agent name"),
        description="Learns from tasks, with tools.",
        base_model=options.base_model or default_base_model(),
        context_length=defaults.max_length,
        response_length=defaults.max_new_tokens,
    )


def require_possible(options: AgentOptions) -> None:
    """Raises UsageError for a GPU that is not here, and for a model that is neither here nor on the hub."""
    device = options.device or ""
    backends = (
        [gpu.backend.replace("rocm", "cuda") for gpu in detect_hardware().gpus] if device not in ("", "cpu") else []
    )
    if device.startswith("cuda"):
        require_device(device, backends.count("cuda"))
    elif device == "mps":
        require_device(device, backends.count("mps"))
    if ":" in device and options.num_processes > 1:
        raise UsageError(f"--device {device} is one GPU: leave out --num-processes")
    if options.base_model and not options.dry_run:
        base_models.require(options.base_model)


class Command(RatchetCommand):
    help = "Train an agent that calls tools, by GRPO of whole episodes in an environment."

    def add_options(self, parser: CommandParser) -> None:
        training_options.add_training_options(parser, AgentOptions)
        add_arguments(parser, EpisodeGroup, "episodes")

    def run(self, options: AgentOptions) -> None:
        file = None
        self._shown: dict[str, Any] = {}
        if options.run is not None:
            train_command(self, "agent", options)
            return
        if options.environment_name:
            options = replace(options, config=str(environment_file(options.environment_name)), environment_name="")
        if not options.config and not (options.agent and options.resume is not None):
            raise UsageError(NO_FILE)
        given = options.policy_type, options.base_model, options.model_path, options.hf_model_name
        options = replace(options, base_model=command_line.base_model_of(*given), model_path="", hf_model_name="")
        if options.config:
            options, file, notes = with_file(options, Path(options.config).expanduser())
            for note in notes:
                self.report("log", {"text": note})
        shown, policy_type = options.preview_tasks or 0, command_line.policy_type_of(options.policy_type)
        options = replace(options, preview_tasks=None, policy_type=policy_type)
        require_possible(options)
        with transaction.atomic():
            agent = agent_for(options)
            config = training_options.training_config(agent, "agent", options, file)
            chosen = training_options.run_options(agent, options)
            if shown > 0 and options.resume is None:
                self._show(agent, config, chosen, shown)
            if options.dry_run:
                train_command(self, "agent", options, file)
                transaction.set_rollback(True)
                return
        train_command(self, "agent", options, file)

    def result(self, document: Mapping[str, Any], *tables: Table, lines: Sequence[str] = ()) -> None:
        super().result({**document, **self._shown}, *tables, lines=lines)

    def _show(self, agent: Agent, config: TrainingConfig, options: RunOptions, most: int) -> None:
        """For people at once, and in the one JSON document that comes at the end."""
        tasks = tasks_of(agent, config, options).train[:most]
        self._shown = {"tasks": list(tasks)}
        if not self.as_json:
            super().result({}, task_table(tasks))
