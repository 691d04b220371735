"""The options of training commands: a dataclass for each group of arguments, and the run that they ask for."""

from argparse import ArgumentTypeError, BooleanOptionalAction
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from rl import dataset_builder
from rl.base.errors import UsageError
from rl.base.slugs import check_slug
from rl.config import METHODS, PRESETS, TrainingConfig, find_method
from rl.config.levels import LEVELS, check_level
from rl.management.options import CommandOptions, add_arguments, argument, option
from rl.models import Agent
from rl.runs import choosing
from rl.runs import run as runs
from rl.runs.effort import EFFORTS, choose_preset
from rl.runs.processes.launch import Launch
from rl.serving.deploy import file_name
from rl.versions import versions

FULL_HELP = "train all weights instead of an adapter, with a tenth of the learning rate if none is given"


def methods_of_rows() -> list[str]:
    """Those that are there when a command begins. Tasks come from a file of their own: train_agent."""
    return [name for name, method in METHODS.items() if not method.rows.of_tasks]


def number_of_run(text: str) -> int:
    """``text``: a number, or the path of a run's folder or of a checkpoint in it. Raises ArgumentTypeError for a folder that
    belongs to no run."""
    if text.isdecimal():
        return int(text)
    runs_folder = (settings.DATA_DIR / "runs").resolve()
    with suppress(OSError, RuntimeError):  # a name that is too long, links that lead to each other
        folder = Path(text).expanduser().resolve()
        parts = folder.relative_to(runs_folder).parts if folder.is_relative_to(runs_folder) else ()
        if folder.is_dir() and parts and parts[0].isdecimal():
            return int(parts[0])
    raise ArgumentTypeError(
        f"{text:.300} belongs to no run here, whose folders are {runs_folder}/NUMBER; "
        "'manage.py runs' lists them. To train on from weights of elsewhere, give a whole model's folder as --base-model"
    )


def count_of_layers(text: str) -> int:
    """0 for all."""
    return 0 if text == "all" else int(text)


class DataGroup(CommandOptions):
    agent: str | None = option("--agent-type", help="whose ratings to learn from")
    min_samples: int = option(default=10, help="fewest rows to train on (10)")
    val_split: float = option(default=0.2, help="share of the prompts held out (0.2)")
    min_confidence: float = option(default=0.5, help="least share of raters that agree, 0.5 to 1")


class PairGroup(CommandOptions):
    source: str = option(
        choices=["db", "file"],
        default="db",
        help="the database, or a Command Center export, whose agent is made where there is none",
    )
    data_file: str = option(default="", help="exhaustive_data.json, with --source file")
    ratings_file: str = option(default="", help="ratings.json, with --source file")
    pair_type: str | None = option(choices=dataset_builder.PAIR_TYPES, help="default: the agent's")
    max_pairs_per_question: int = option(default=5, help="most pairs of one prompt (5)")


class TrainingGroup(CommandOptions):
    """Hyper-parameters that are None come from the agent, or from the preset."""

    config: str | None = option(choices=list(PRESETS), help="preset")
    effort: str = option(
        choices=list(EFFORTS),
        default="",
        help="how long it may take, instead of a preset: about a minute, as auto, or more",
    )
    base_model: str = option(default="", help="hub id or directory; default: the agent's")
    full: bool | None = option(action="store_const", const=True, help=FULL_HELP)
    epochs: float | None = option()
    sft_epochs: float | None = argument(
        "--sft-first",
        nargs="?",
        type=float,
        const=-1.0,
        metavar="EPOCHS",
        help="imitate the good answers first, for so many epochs; default: as many as train_sft would take",
    )
    sft_learning_rate: float | None = option(help="of that imitation; default: what train_sft would take")
    max_steps: int | None = option(help="optimiser steps; default: as many as the epochs come to")
    batch_size: int | None = option(help="rows per forward pass")
    gradient_accumulation: int | None = option(help="forward passes per optimiser step")
    learning_rate: float | None = option()
    train_layers: int | None = option(
        type=count_of_layers, metavar="N|all", help="layers, from the top, that get an adapter"
    )
    lora_r: int | None = option(help="rank of the adapter")
    lora_alpha: int | None = option()
    max_length: int | None = option(help="tokens of prompt and answer")
    save_steps: int | None = option(help="optimiser steps between checkpoints")
    seed: int | None = option()
    fast: bool | None = option(action=BooleanOptionalAction, help="share beginnings of rows (the default)")
    quantize_base: str | None = option(
        choices=["auto", "4bit"],
        help="the base model's frozen weights in 4 bits",
        also={"--no-quantization": {"action": "store_const", "const": "none", "help": "never in 4 bits"}},
    )


class RolloutGroup(CommandOptions):
    temperature: float | None = option(help="of sampling; 1 is the model's own")
    top_p: float | None = option(help="sample among the likeliest tokens that have this share")
    max_new_tokens: int | None = option(help="most tokens of one answer")
    rewards: str = option(default="", help="names, with commas between; default: all of the agent's")
    reward_model: str = option(default="", help="a reward model's directory or version rewards instead")


class VllmGroup(CommandOptions):
    vllm: bool | None = option(
        one_of="vllm", action="store_const", const=True, help="generate with vLLM on the GPU that trains"
    )
    vllm_server: str | None = option(one_of="vllm", metavar="URL", help="generate on a vLLM server")


class TaskGroup(CommandOptions):
    dataset_dir: str = option(default="", help="folder with a .jsonl file for each split")
    train_split: str = option(default="", help="file to learn from, without .jsonl (train)")
    eval_split: str | None = option(help="file to be measured by, without .jsonl (eval); empty: none")
    preview_tasks: int | None = option(metavar="N", help="show the first tasks before training (0)")
    """None: 0, or what a file of another system means."""
    curriculum: bool | None = option(
        action="store_const", const=True, help="the hardest tasks that still teach come first"
    )


class SweepGroup(CommandOptions):
    """For methods whose rows say what is better, so that a trial can be measured."""

    sweep: bool = option(
        action="store_true", help="try half, once and double the learning rate first, on part of the rows"
    )


class RunGroup(CommandOptions):
    output_dir: str = option(default="", help="put a copy of the adapter, or of the whole model, here")
    resume: int | None = option(
        nargs="?",
        type=number_of_run,
        const=0,
        metavar="RUN|FOLDER",
        help="go on with the agent's last stopped run, the run of this number, or the run of this checkpoint folder",
    )
    """The run's number, also given as one of its folders; 0: the agent's last stopped run."""
    export: bool = option(action="store_true", help="export GGUF if the gate promotes the version")
    quantization: str = option(default="q8_0", help=f"of the GGUF: {', '.join(LEVELS)}")
    deploy: str = option(
        choices=["ollama", "llama_cpp", "adapter"],
        default="",
        help="export, and serve it there",
        also={"--register-ollama": {"action": "store_const", "const": "ollama", "help": "the same as --deploy ollama"}},
    )
    model_name: str = option(default="", help="name of the exported model")
    report_to: str = option(default="", help=f"with commas between: {', '.join(choosing.TRACKERS)}")
    num_processes: int = option(default=1, help="train in so many processes at once")
    accelerate_config: str = option(default="", help="train as this file of 'accelerate config' says")
    dry_run: bool = option(action="store_true", help="say what would be trained, and do nothing")
    run: int | None = option(help="work on this claimed run (the queue starts runs so)")
    attempt: int | None = option(help="with --run: the attempt that the caller claimed")


class TrainOptions(TrainingGroup, RunGroup):
    """What every training command has. Those of a command add its other groups, and its method's hyper-parameters."""

    agent: str | None


TITLES: Mapping[type[Any], str] = {
    DataGroup: "data",
    PairGroup: "pairs",
    TrainingGroup: "training (what is not given comes from the agent, or the preset)",
    RolloutGroup: "answers that are generated while training",
    TaskGroup: "tasks",
    VllmGroup: "",
    SweepGroup: "",
    RunGroup: "run",
}
"""Groups in the order in which help shows them, each with its heading."""


def add_training_options(parser: CommandParser, kind: type[TrainOptions], title: str = "") -> None:
    """The groups that ``kind`` has, and below ``title`` what it adds to them."""
    for group, heading in TITLES.items():
        if group is RunGroup:
            add_arguments(parser, kind, title, own=True)
        if issubclass(kind, group):
            add_arguments(parser, group, heading)


def training_config(
    agent: Agent, method: str, options: TrainOptions, file: Mapping[str, Any] | None = None
) -> TrainingConfig:
    """What is given on the command line, over the named preset, or over the agent's own settings. ``file``: what a
    configuration file settles. Raises UsageError for what could not take effect."""
    if options.sft_epochs and find_method(method).imitates:
        raise UsageError(f"--sft-first imitates good answers first, and {method} does nothing else: leave it out")
    start = choose_preset(agent, method, preset=options.config or "", effort=options.effort).config
    values = {**vars(options), **(file or {})}
    return start.with_overrides({field.name: values[field.name] for field in fields(start) if field.name in values})


def run_options(agent: Agent, options: TrainOptions) -> runs.RunOptions:
    """Raises UsageError for what could not take effect, or would be refused after hours of training."""
    _check_run(options)
    given = {name: value for name, value in vars(options).items() if name in _OF_RUN and value is not None}
    given["export"] = options.export or bool(options.deploy)
    data = {name: value for name, value in vars(options).items() if name in _OF_DATA and value is not None}
    rows = dataset_builder.DataOptions(**{"pair_type": agent.pair_type, **data})
    return runs.RunOptions(data=rows, **given)


_OF_RUN, _OF_DATA = ({field.name for field in fields(kind)} for kind in (runs.RunOptions, dataset_builder.DataOptions))


def _check_run(options: TrainOptions) -> None:
    if options.model_name and not options.export and not options.deploy:
        raise UsageError("--model-name names the exported model: add --export or --deploy")
    check_export(options.quantization, options.model_name)
    if options.output_dir:
        versions.check_output_dir(options.output_dir)
    choosing.tracker_names(options.report_to)
    Launch(options.num_processes, options.accelerate_config)
    if isinstance(options, PairGroup):
        if options.source == "file" and not options.data_file:
            raise UsageError("--source file needs --data-file")
        for flag, file in (("--data-file", options.data_file), ("--ratings-file", options.ratings_file)):
            if file and options.source != "file":
                raise UsageError(f"{flag} needs --source file; without it the database is read")


def check_export(quantization: str, model_name: str) -> None:
    """What the export would refuse, refused before hours of training."""
    check_level(quantization)
    if model_name:
        check_slug(file_name(model_name), "model name")
