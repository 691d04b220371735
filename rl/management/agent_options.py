"""What ``train_agent`` is asked for: a configuration file, and options that override it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from rl.base.errors import UsageError
from rl.base.slugs import check_slug
from rl.config import AgentConfig
from rl.environments.config_file import read_agent_file
from rl.hardware import detect_hardware
from rl.management.training_options import (
    TaskGroup,
    TrainOptions,
    add_run_options,
    add_task_options,
    add_training_options,
)
from rl.models import Agent
from rl.models.agents import default_base_model
from rl.registered import environment_of

NONE_HELD_OUT = ("eval_split", "")


@dataclass(frozen=True, kw_only=True)
class AgentOptions(TrainOptions, TaskGroup):
    policy_type: str | None
    num_generations: int | None
    async_rollout_workers: int | None
    temperature: float | None
    max_new_tokens: int | None
    beta: float | None
    device: str | None
    vllm: bool | None
    vllm_server: str | None


def add_agent_options(parser: CommandParser) -> None:
    parser.add_argument("--agent", help="whose model it is, made if there is none; default: the file's name")
    add_training_options(parser)
    parser.add_argument("--config", metavar="FILE", help="YAML: model, policy, env, rollout, train, eval, tools")
    parser.add_argument("--base-model", "--model", default="", help="hub id or directory; default: the file's")
    add_task_options(parser)
    episodes = parser.add_argument_group("episodes")
    episodes.add_argument("--policy-type", choices=AgentConfig.CHOICES["policy_type"], help="how tools are written")
    episodes.add_argument("--num-generations", type=int, help="episodes of a task, compared with each other")
    episodes.add_argument("--async-rollout-workers", type=int, help="processes in which environments run")
    episodes.add_argument("--temperature", type=float, help="of sampling; 1 is the model's own")
    episodes.add_argument("--max-new-tokens", type=int, help="most tokens of one turn")
    episodes.add_argument("--beta", type=float, help="weight of the divergence from the base model")
    episodes.add_argument("--device", choices=AgentConfig.CHOICES["device"], help="to train on (auto)")
    vllm = parser.add_mutually_exclusive_group()
    vllm.add_argument("--vllm", action="store_const", const=True, help="generate with vLLM on the GPU that trains")
    vllm.add_argument("--vllm-server", metavar="URL", help="generate on a vLLM server")
    add_run_options(parser)


def with_file(options: AgentOptions, path: Path) -> tuple[AgentOptions, dict[str, Any]]:
    """The options, with the file's values where none was given, and all that the file settles: hyper-parameters without an
    option too. Raises UsageError or BadFile."""
    file = read_agent_file(path)
    values = {
        **file.hyper,
        "base_model": file.base_model,
        "dataset_dir": file.dataset_dir,
        "train_split": file.train_split,
        "eval_split": file.eval_split,
        "environment": asdict(environment_of(file)),
    }
    settled = {name: value for name, value in values.items() if not _is_given(options, name)}
    with_options = {field.name: settled[field.name] for field in fields(options) if field.name in settled}
    merged = replace(options, config=None, agent=options.agent or file.agent or path.stem, **with_options)
    if merged.dataset_dir:
        merged = replace(merged, dataset_dir=str(Path(merged.dataset_dir).expanduser().resolve()))
    return merged, settled


def _is_given(options: AgentOptions, name: str) -> bool:
    value = getattr(options, name, None)
    return value not in (None, "") or (name, value) == NONE_HELD_OUT


def agent_for(options: AgentOptions) -> Agent:
    """The agent of that name, made where there is none, unless a run is to be resumed. Raises UsageError for a name that
    none can have."""
    name = options.agent
    assert name is not None  # noqa: S101  require_file and with_file see to it
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


def require_file(options: AgentOptions) -> None:
    if not options.config and not (options.agent and options.resume is not None):
        raise UsageError("--config is missing: a YAML file that says which environment, see docs/agents.md")


def require_device(name: str | None) -> None:
    """Raises UsageError for a GPU that is not here."""
    if name in ("cuda", "mps") and name not in {gpu.backend.replace("rocm", "cuda") for gpu in detect_hardware().gpus}:
        raise UsageError(f"there is no device {name} here: leave it out, or take cpu")
