"""The options and the course of action that all training commands share."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from django.core.management.base import CommandParser

from rl import dataset_builder
from rl.base.errors import GateRejected, Interrupted, RunConflict, UsageError
from rl.base.slugs import check_slug
from rl.config import PRESETS, TrainingConfig
from rl.config.authority import Owner
from rl.config.levels import LEVELS, check_level
from rl.hardware import detect_hardware, in_4bit
from rl.management.base import RatchetCommand, two_columns
from rl.management.resuming import resumable, resume
from rl.management.tables import evaluation_document, evaluation_table, verdict_line
from rl.models import Agent, Evaluation, TrainingRun
from rl.operations import audit
from rl.runs import choosing, supervisor
from rl.runs import run as runs
from rl.runs.dry_run import dry_run
from rl.runs.processes.launch import Launch
from rl.runs.report.tracker_names import TRACKERS, tracker_names
from rl.serving.deploy import file_name
from rl.versions import versions

FULL_HELP = "train all weights instead of an adapter, with a tenth of the learning rate if none is given"


def add_data_options(parser: CommandParser) -> None:
    data = parser.add_argument_group("data")
    data.add_argument("--agent", help="whose ratings to learn from")
    data.add_argument("--min-samples", type=int, default=10, help="fewest rows to train on (10)")
    data.add_argument("--val-split", type=float, default=0.2, help="share of the prompts held out (0.2)")
    data.add_argument("--min-confidence", type=float, default=0.5, help="least share of raters that agree, 0.5 to 1")


def add_pair_options(parser: CommandParser) -> None:
    data = parser.add_argument_group("pairs")
    data.add_argument("--source", choices=["db", "file"], default="db", help="the database, or a Command Center export")
    data.add_argument("--data-file", default="", help="exhaustive_data.json, with --source file")
    data.add_argument("--ratings-file", default="", help="ratings.json, with --source file")
    data.add_argument("--pair-type", choices=dataset_builder.PAIR_TYPES, help="default: the agent's")
    data.add_argument("--max-pairs-per-question", type=int, default=5, help="most pairs of one prompt (5)")


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
    training.add_argument("--lora-r", type=int, help="rank of the adapter")
    training.add_argument("--lora-alpha", type=int)
    training.add_argument("--max-length", type=int, help="tokens of prompt and answer")
    training.add_argument("--save-steps", type=int, help="optimiser steps between checkpoints")
    training.add_argument("--seed", type=int)
    frozen = training.add_mutually_exclusive_group()
    frozen.add_argument("--quantize-base", choices=["auto", "4bit"], help="the base model's frozen weights in 4 bits")
    frozen.add_argument(
        "--no-quantization", dest="quantize_base", action="store_const", const="none", help="never in 4 bits"
    )


def add_rollout_options(parser: CommandParser) -> None:
    """Of methods that generate answers while they train."""
    rollouts = parser.add_argument_group("answers that are generated while training")
    rollouts.add_argument("--temperature", type=float, help="of sampling; 1 is the model's own")
    rollouts.add_argument("--top-p", type=float, help="sample among the likeliest tokens that have this share")
    rollouts.add_argument("--max-new-tokens", type=int, help="most tokens of one answer")
    rollouts.add_argument("--rewards", default="", help="names, with commas between; default: all of the agent's")
    rollouts.add_argument("--reward-model", default="", help="a reward model's directory or version rewards instead")


def add_run_options(parser: CommandParser) -> None:
    run = parser.add_argument_group("run")
    run.add_argument("--output-dir", default="", help="put a copy of the adapter, or of the whole model, here")
    run.add_argument(
        "--resume", nargs="?", type=int, const=0, metavar="RUN", help="go on with the agent's last stopped run"
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


def train_command(command: RatchetCommand, method: str, options: dict[str, Any]) -> None:
    if options["run"] is not None:
        with audit.acting_for(audit.Caller(audit.QUEUE)):
            _execute(command, _claimed(options["run"], options["attempt"]))
        return
    if not options["agent"]:
        raise UsageError("--agent is missing: say whose ratings to learn from")
    agent = Agent.by_name(options["agent"])
    config = training_config(agent, method, options)
    in_4bit(config.quantization, detect_hardware())
    if options["resume"] is not None:
        stopped = resumable(agent, method, options["resume"])
        _execute(command, resume(command, stopped, options, config.as_dict()))
        return
    asked = run_options(agent, options)
    if options["dry_run"]:
        plan = dry_run(agent, config, asked, method)
        command.result(plan.document, *[two_columns(title, rows) for title, rows in plan.tables.items()])
        return
    run = runs.create(agent, method_name=method, config=config, options=asked, by=Owner.OPERATOR)
    _execute(command, supervisor.claim_stopped(run))


def training_config(agent: Agent, method: str, options: dict[str, Any]) -> TrainingConfig:
    """What is given on the command line, over the named preset, or over the agent's own settings."""
    start = choosing.choose(agent, method, preset=options["config"] or "").config
    known = {field.name for field in fields(start)}
    return start.with_overrides({name: value for name, value in options.items() if name in known})


def run_options(agent: Agent, options: dict[str, Any]) -> runs.RunOptions:
    if options["model_name"] and not options["export"] and not options["deploy"]:
        raise UsageError("--model-name names the exported model: add --export or --deploy")
    check_export(options["quantization"], options["model_name"])
    if options["output_dir"]:
        versions.check_output_dir(options["output_dir"])
    tracker_names(options["report_to"])
    Launch(options["num_processes"], options["accelerate_config"])
    names = [
        "base_model",
        "output_dir",
        "quantization",
        "model_name",
        "report_to",
        "num_processes",
        "accelerate_config",
    ]
    of_data: list[str] = [name for name in ("min_samples", "val_split", "min_confidence") if name in options]
    if "source" in options:
        _check_files(options)
        names += ["source", "data_file", "ratings_file"]
        of_data += ["max_pairs_per_question"]
    further = ("rewards", "reward_model", "dataset_dir", "train_split", "eval_split")
    names += [name for name in further if options.get(name) is not None]
    return runs.RunOptions(
        data=dataset_builder.DataOptions(
            pair_type=options.get("pair_type") or agent.pair_type, **{name: options[name] for name in of_data}
        ),
        export=options["export"] or bool(options["deploy"]),
        deploy=options["deploy"],
        **{name: options[name] for name in names},
    )


def _check_files(options: dict[str, Any]) -> None:
    if options["source"] == "file":
        if not options["data_file"]:
            raise UsageError("--source file needs --data-file")
        return
    for name in ("data_file", "ratings_file"):
        if options[name]:
            raise UsageError(f"--{name.replace('_', '-')} needs --source file; without it the database is read")


def check_export(quantization: str, model_name: str) -> None:
    """What the export would refuse, refused before hours of training."""
    check_level(quantization)
    if model_name:
        check_slug(file_name(model_name), "model name")


def _claimed(run_id: int, attempt: int | None) -> TrainingRun:
    run = TrainingRun.objects.select_related("agent", "training_set", "version").filter(pk=run_id).first()
    if run is None:
        raise UsageError(f"there is no run {run_id}")
    if run.state != TrainingRun.State.RUNNING or run.attempt != attempt:
        raise RunConflict(f"run {run_id} is {run.state} at attempt {run.attempt}; attempt {attempt} has nothing to do")
    return run


def _execute(command: RatchetCommand, run: TrainingRun) -> None:
    try:
        evaluation = runs.execute(run, command.report)
    except Interrupted as stop:
        raise Interrupted(f"{stop}; --resume {run.pk} goes on from its last checkpoint") from stop
    show_run(command, run, evaluation)


def show_run(command: RatchetCommand, run: TrainingRun, evaluation: Evaluation) -> None:
    """Raises GateRejected, which is the command's exit code."""
    assert run.version is not None  # noqa: S101  a run that ends well has made one
    artifacts = {artifact.kind: artifact.path for artifact in run.version.artifacts.all()}
    document = {"run": run.pk, "version": run.version.name, "steps": run.step, "artifacts": artifacts}
    lines = [verdict_line(evaluation), f"version: {run.version}"]
    lines += [f"{kind}: {path}" for kind, path in artifacts.items()]
    command.result(
        {**document, "evaluation": evaluation_document(evaluation)}, evaluation_table(evaluation), lines=lines
    )
    if evaluation.verdict == Evaluation.Verdict.REJECT:
        raise GateRejected(f"{run.version} is worse than the version in use; it was not exported and is not used")
