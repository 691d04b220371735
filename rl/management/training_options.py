"""The options of training commands: a dataclass for each group of arguments, and the run that they ask for."""

from __future__ import annotations

from argparse import BooleanOptionalAction
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from django.core.management.base import CommandParser

from rl import dataset_builder
from rl.base.errors import UsageError
from rl.base.slugs import check_slug
from rl.config import PRESETS, TrainingConfig
from rl.config.levels import LEVELS, check_level
from rl.management.run_numbers import number_of_run
from rl.management.sweep_option import SweepGroup
from rl.models import Agent
from rl.runs import choosing
from rl.runs import run as runs
from rl.runs.processes.launch import Launch
from rl.runs.report.tracker_names import TRACKERS, tracker_names
from rl.serving.deploy import file_name
from rl.versions import versions

FULL_HELP = "train all weights instead of an adapter, with a tenth of the learning rate if none is given"


@dataclass(frozen=True, kw_only=True)
class DataGroup:
    min_samples: int
    val_split: float
    min_confidence: float


def add_data_options(parser: CommandParser) -> None:
    data = parser.add_argument_group("data")
    data.add_argument("--agent", "--agent-type", help="whose ratings to learn from")
    data.add_argument("--min-samples", type=int, default=10, help="fewest rows to train on (10)")
    data.add_argument("--val-split", type=float, default=0.2, help="share of the prompts held out (0.2)")
    data.add_argument("--min-confidence", type=float, default=0.5, help="least share of raters that agree, 0.5 to 1")


@dataclass(frozen=True, kw_only=True)
class PairGroup:
    source: str
    data_file: str
    ratings_file: str
    pair_type: str | None
    """None: the agent's."""
    max_pairs_per_question: int


def add_pair_options(parser: CommandParser) -> None:
    data = parser.add_argument_group("pairs")
    data.add_argument("--source", choices=["db", "file"], default="db", help="the database, or a Command Center export")
    data.add_argument("--data-file", default="", help="exhaustive_data.json, with --source file")
    data.add_argument("--ratings-file", default="", help="ratings.json, with --source file")
    data.add_argument("--pair-type", choices=dataset_builder.PAIR_TYPES, help="default: the agent's")
    data.add_argument("--max-pairs-per-question", type=int, default=5, help="most pairs of one prompt (5)")


@dataclass(frozen=True, kw_only=True)
class TrainingGroup:
    """Hyper-parameters that are None come from the agent, or from the preset."""

    config: str | None
    base_model: str
    full: bool | None
    epochs: float | None
    sft_epochs: float | None
    max_steps: int | None
    batch_size: int | None
    gradient_accumulation: int | None
    learning_rate: float | None
    train_layers: int | None
    lora_r: int | None
    lora_alpha: int | None
    max_length: int | None
    save_steps: int | None
    seed: int | None
    quantize_base: str | None
    fast: bool | None


def count_of_layers(text: str) -> int:
    """0 for all."""
    return 0 if text == "all" else int(text)


def add_training_options(parser: CommandParser) -> None:
    training = parser.add_argument_group("training (what is not given comes from the agent, or the preset)")
    training.add_argument("--config", choices=list(PRESETS), help="preset")
    training.add_argument("--base-model", default="", help="hub id or directory; default: the agent's")
    training.add_argument("--full", action="store_const", const=True, help=FULL_HELP)
    training.add_argument("--epochs", type=float)
    training.add_argument(
        "--sft-first",
        dest="sft_epochs",
        nargs="?",
        type=float,
        const=1.0,
        metavar="EPOCHS",
        help="imitate the good answers first, for so many epochs (1)",
    )
    training.add_argument("--max-steps", type=int, help="optimiser steps; default: as many as the epochs come to")
    training.add_argument("--batch-size", type=int, help="rows per forward pass")
    training.add_argument("--gradient-accumulation", type=int, help="forward passes per optimiser step")
    training.add_argument("--learning-rate", type=float)
    training.add_argument(
        "--train-layers", type=count_of_layers, metavar="N|all", help="layers, from the top, that get an adapter"
    )
    training.add_argument("--lora-r", type=int, help="rank of the adapter")
    training.add_argument("--lora-alpha", type=int)
    training.add_argument("--max-length", type=int, help="tokens of prompt and answer")
    training.add_argument("--save-steps", type=int, help="optimiser steps between checkpoints")
    training.add_argument("--seed", type=int)
    training.add_argument("--fast", action=BooleanOptionalAction, help="share beginnings of rows (the default)")
    frozen = training.add_mutually_exclusive_group()
    frozen.add_argument("--quantize-base", choices=["auto", "4bit"], help="the base model's frozen weights in 4 bits")
    frozen.add_argument(
        "--no-quantization", dest="quantize_base", action="store_const", const="none", help="never in 4 bits"
    )


@dataclass(frozen=True, kw_only=True)
class RolloutGroup:
    temperature: float | None
    top_p: float | None
    max_new_tokens: int | None
    rewards: str
    reward_model: str


def add_rollout_options(parser: CommandParser) -> None:
    """For methods that generate answers while they train."""
    rollouts = parser.add_argument_group("answers that are generated while training")
    rollouts.add_argument("--temperature", type=float, help="of sampling; 1 is the model's own")
    rollouts.add_argument("--top-p", type=float, help="sample among the likeliest tokens that have this share")
    rollouts.add_argument("--max-new-tokens", type=int, help="most tokens of one answer")
    rollouts.add_argument("--rewards", default="", help="names, with commas between; default: all of the agent's")
    rollouts.add_argument("--reward-model", default="", help="a reward model's directory or version rewards instead")


@dataclass(frozen=True, kw_only=True)
class TaskGroup:
    dataset_dir: str
    train_split: str
    eval_split: str | None
    preview_tasks: int | None
    """None: 0, or what a file of another system means."""
    curriculum: bool | None


def add_task_options(parser: CommandParser) -> None:
    tasks = parser.add_argument_group("tasks")
    tasks.add_argument("--dataset-dir", default="", help="folder with a .jsonl file for each split")
    tasks.add_argument("--train-split", default="", help="file to learn from, without .jsonl (train)")
    tasks.add_argument("--eval-split", help="file to be measured by, without .jsonl (eval); empty: none")
    tasks.add_argument("--preview-tasks", type=int, metavar="N", help="show the first tasks before training (0)")
    tasks.add_argument(
        "--curriculum", action="store_const", const=True, help="the hardest tasks that still teach come first"
    )


@dataclass(frozen=True, kw_only=True)
class RunGroup:
    output_dir: str
    resume: int | None
    """The run's number, also given as one of its folders; 0: the agent's last stopped run."""
    export: bool
    quantization: str
    deploy: str
    model_name: str
    report_to: str
    num_processes: int
    accelerate_config: str
    dry_run: bool
    run: int | None
    attempt: int | None


def add_run_options(parser: CommandParser) -> None:
    run = parser.add_argument_group("run")
    run.add_argument("--output-dir", default="", help="put a copy of the adapter, or of the whole model, here")
    run.add_argument(
        "--resume",
        nargs="?",
        type=number_of_run,
        const=0,
        metavar="RUN|FOLDER",
        help="go on with the agent's last stopped run, the run of this number, or the run of this checkpoint folder",
    )
    run.add_argument("--export", action="store_true", help="export GGUF if the gate promotes the version")
    run.add_argument("--quantization", default="q8_0", help=f"of the GGUF: {', '.join(LEVELS)}")
    deploy = run.add_mutually_exclusive_group()
    deploy.add_argument("--deploy", choices=["ollama", "llama_cpp"], default="", help="export, and serve it there")
    deploy.add_argument(
        "--register-ollama", dest="deploy", action="store_const", const="ollama", help="the same as --deploy ollama"
    )
    run.add_argument("--model-name", default="", help="name of the exported model")
    run.add_argument("--report-to", default="", help=f"with commas between: {', '.join(TRACKERS)}")
    run.add_argument("--num-processes", type=int, default=1, help="train in so many processes at once")
    run.add_argument("--accelerate-config", default="", help="train as this file of 'accelerate config' says")
    run.add_argument("--dry-run", action="store_true", help="say what would be trained, and do nothing")
    run.add_argument("--run", type=int, help="work on this claimed run (the queue starts runs so)")
    run.add_argument("--attempt", type=int, help="with --run: the attempt that the caller claimed")


@dataclass(frozen=True, kw_only=True)
class TrainOptions(TrainingGroup, RunGroup):
    """What every training command has. Those of a command add its other groups, and its method's hyper-parameters."""

    agent: str | None


def training_config(
    agent: Agent, method: str, options: TrainOptions, file: Mapping[str, Any] | None = None
) -> TrainingConfig:
    """What is given on the command line, over the named preset, or over the agent's own settings. ``file``: what a
    configuration file settles."""
    start = choosing.choose(agent, method, preset=options.config or "").config
    values = {**vars(options), **(file or {})}
    return start.with_overrides({field.name: values[field.name] for field in fields(start) if field.name in values})


def run_options(agent: Agent, options: TrainOptions) -> runs.RunOptions:
    """Raises UsageError for what could not take effect, or would be refused after hours of training."""
    _check_run(options)
    chosen = runs.RunOptions(
        data=_data_options(agent, options),
        base_model=options.base_model,
        output_dir=options.output_dir,
        export=options.export or bool(options.deploy),
        quantization=options.quantization,
        model_name=options.model_name,
        deploy=options.deploy,
        report_to=options.report_to,
        num_processes=options.num_processes,
        accelerate_config=options.accelerate_config,
    )
    if isinstance(options, PairGroup):
        source, data_file, ratings_file = options.source, options.data_file, options.ratings_file
        chosen = replace(chosen, source=source, data_file=data_file, ratings_file=ratings_file)
    if isinstance(options, SweepGroup):
        chosen = replace(chosen, sweep=options.sweep)
    if isinstance(options, RolloutGroup):
        chosen = replace(chosen, rewards=options.rewards, reward_model=options.reward_model)
    if isinstance(options, TaskGroup):
        chosen = replace(chosen, dataset_dir=options.dataset_dir, train_split=options.train_split)
        chosen = chosen if options.eval_split is None else replace(chosen, eval_split=options.eval_split)
    return chosen


def _data_options(agent: Agent, options: TrainOptions) -> dataset_builder.DataOptions:
    data = dataset_builder.DataOptions(pair_type=agent.pair_type)
    if isinstance(options, DataGroup):
        data = replace(
            data,
            min_samples=options.min_samples,
            val_split=options.val_split,
            min_confidence=options.min_confidence,
        )
    if isinstance(options, PairGroup):
        data = replace(
            data,
            pair_type=options.pair_type or agent.pair_type,
            max_pairs_per_question=options.max_pairs_per_question,
        )
    return data


def _check_run(options: TrainOptions) -> None:
    if options.model_name and not options.export and not options.deploy:
        raise UsageError("--model-name names the exported model: add --export or --deploy")
    check_export(options.quantization, options.model_name)
    if options.output_dir:
        versions.check_output_dir(options.output_dir)
    tracker_names(options.report_to)
    Launch(options.num_processes, options.accelerate_config)
    if isinstance(options, PairGroup):
        _check_files(options)


def _check_files(options: PairGroup) -> None:
    if options.source == "file":
        if not options.data_file:
            raise UsageError("--source file needs --data-file")
        return
    for option, file in (("--data-file", options.data_file), ("--ratings-file", options.ratings_file)):
        if file:
            raise UsageError(f"{option} needs --source file; without it the database is read")


def check_export(quantization: str, model_name: str) -> None:
    """What the export would refuse, refused before hours of training."""
    check_level(quantization)
    if model_name:
        check_slug(file_name(model_name), "model name")
