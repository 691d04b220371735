"""What the training commands accept, and what they refuse before anything is begun."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from rich.console import Console

from rl.base.errors import GateRejected
from rl.dataset_builder import DataOptions
from rl.management import training
from rl.management.commands import train_dpo
from rl.management.options import read_options
from rl.management.training import TrainCommand
from rl.management.training_options import training_config
from rl.models import Agent, TrainingRun
from rl.runs import run as runs
from rl.runs.progress import ProgressLine
from tests.admin.records import make_evaluation, make_run, make_training_set, make_version
from tests.collect.make_command_center import write_files
from tests.hardware.machines import LAPTOP

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _files(data_dir):
    pass


@pytest.fixture
def stopped(agent: Agent) -> TrainingRun:
    """A cancelled run with a learning rate and a held-out share of its own."""
    run = runs.create(
        agent,
        method_name="dpo",
        config=agent.training_config().with_overrides({"learning_rate": 1e-3}),
        options=runs.RunOptions(data=DataOptions(val_split=0.25)),
    )
    run.claim()
    run.finish(TrainingRun.State.CANCELLED)
    return run


def refused(*options: str) -> str:
    """The one line with which ``train_dpo`` refuses, as a usage error."""
    with pytest.raises(CommandError) as refusal:
        call_command("train_dpo", "--agent", "support-chat", *options)
    assert refusal.value.returncode == 2
    return str(refusal.value)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--data-file", "x.json"), "--data-file needs --source file"),
        (("--ratings-file", "x.json"), "--ratings-file needs --source file"),
        (("--export", "--quantization", "q9_9"), "unknown quantization 'q9_9'"),
        (("--export", "--model-name", "two words"), "model name 'two words' is not usable"),
        (("--model-name", "support"), "--model-name names the exported model: add --export"),
        (
            ("--report-to", "comet"),
            "unknown tracker of --report-to 'comet'; known: tensorboard, trackio, mlflow, wandb",
        ),
    ],
)
def test_an_option_that_could_not_take_effect_is_refused_before_a_run_is_made(agent, options, complaint):
    assert complaint in refused(*options)
    assert not TrainingRun.objects.exists()


def test_all_weights_cannot_be_in_4_bits(agent):
    assert "weights in 4 bits cannot be trained" in refused("--full", "--quantize-base", "4bit")


def test_a_taken_output_dir_is_refused_before_a_run_is_made(agent, tmp_path):
    (tmp_path / "adapter").mkdir()
    assert "exists already" in refused("--output-dir", str(tmp_path))
    assert not TrainingRun.objects.exists()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--learning-rate", "0.1"), "--learning-rate"),
        (("--val-split", "0.3"), "--val-split"),
        (("--export",), "--export"),
        (("--config", "high_quality"), "--config"),
    ],
)
def test_a_resume_refuses_what_the_run_was_not_started_with(stopped, options, named):
    assert f"leave out {named}" in refused("--resume", *options)
    stopped.refresh_from_db()
    assert stopped.state == TrainingRun.State.CANCELLED


@pytest.mark.database
def test_a_checkpoint_folder_resumes_the_run_that_it_belongs_to(stopped):
    checkpoint = stopped.directory / "checkpoint-4"
    checkpoint.mkdir(parents=True)
    with pytest.raises(CommandError, match="are needed"):  # it goes on, and finds no ratings
        call_command("train_dpo", "--agent", "support-chat", "--resume", str(checkpoint))
    stopped.refresh_from_db()
    assert stopped.attempt == 2


def test_a_folder_that_belongs_to_no_run_is_refused_with_what_to_do(stopped, tmp_path, data_dir):
    for folder in (tmp_path, data_dir / "runs", stopped.directory / "checkpoint-9"):
        with pytest.raises(CommandError, match=r"belongs to no run here.* 'manage.py runs' lists them"):
            call_command("train_dpo", "--agent", "support-chat", "--resume", str(folder))


@pytest.mark.database
def test_a_dry_run_of_a_resume_is_refused_and_nothing_is_trained(stopped):
    assert "--dry-run" in refused("--resume", "--dry-run")
    stopped.refresh_from_db()
    assert (stopped.state, stopped.attempt) == (TrainingRun.State.CANCELLED, 1)


def test_a_resume_may_repeat_what_the_run_was_started_with(stopped):
    with pytest.raises(CommandError, match="are needed"):  # it goes on, and finds no ratings
        call_command(
            "train_dpo", "--agent", "support-chat", "--resume", "--val-split", "0.25", "--learning-rate", "1e-3"
        )
    stopped.refresh_from_db()
    assert stopped.attempt == 2


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_four_bits_that_cannot_work_are_refused_before_a_run_is_made(agent, monkeypatch, options):
    monkeypatch.setattr("rl.management.training.detect_hardware", lambda: LAPTOP)
    assert "cannot be loaded in 4 bits here: that needs an NVIDIA GPU" in refused("--quantize-base", "4bit", *options)
    assert not TrainingRun.objects.exists()


def test_four_bits_or_none_not_both(agent):
    with pytest.raises(CommandError, match="not allowed with argument"):
        call_command("train_dpo", "--agent", agent.name, "--quantize-base", "4bit", "--no-quantization")


def test_no_quantization_wins_over_the_preset(agent):
    parser = train_dpo.Command().create_parser("manage.py", "train_dpo")
    options = read_options(train_dpo.Options, vars(parser.parse_args(["--config", "memory_constrained"])))
    assert training_config(agent, "dpo", options).quantize_base == "auto"
    assert training_config(agent, "dpo", replace(options, quantize_base="none")).quantize_base == "none"


@pytest.mark.database
def test_a_tracker_that_is_not_installed_is_refused_before_a_run_is_made(agent, monkeypatch):
    monkeypatch.setattr("rl.runs.choosing.importlib.util.find_spec", lambda name: None)
    assert "--report-to wandb needs the package wandb" in refused("--report-to", "wandb")
    assert not TrainingRun.objects.exists()


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    made = write_files(tmp_path, questions=12, seed=5)
    return "--source", "file", "--data-file", str(made.entries), "--ratings-file", str(made.ratings)


@pytest.mark.parametrize(("named", "name"), [((), "command-center"), (("--agent", "widgets"), "widgets")])
def test_a_file_brings_its_agent_with_it(files, named: tuple[str, ...], name: str, monkeypatch):
    """The run is made and not worked on."""
    monkeypatch.setattr(training, "_execute", lambda command, run: None)
    call_command("train_dpo", *files, *named, verbosity=0)
    run = TrainingRun.objects.get()
    assert (run.agent.name, run.agent.prompt_template, run.options["source"]) == (name, "command_center", "file")
    with pytest.raises(CommandError, match=f"has run {run.pk} in progress"):
        call_command("train_dpo", *files, *named, verbosity=0)
    assert Agent.objects.count() == 1


def test_the_dry_run_of_a_file_leaves_no_agent(files):
    output = StringIO()
    call_command("train_dpo", *files, "--dry-run", "--json", stdout=output, verbosity=0)
    document = json.loads(output.getvalue())
    assert (document["agent"], document["data"]["train_rows"] > 10) == ("command-center", True)
    assert not Agent.objects.exists()


def test_a_file_that_cannot_be_trained_on_leaves_no_agent(files):
    with pytest.raises(CommandError, match="epochs must be a number"):
        call_command("train_dpo", *files, "--epochs", "-1")
    assert not Agent.objects.exists()


@pytest.mark.parametrize(
    "reason",
    [
        "degenerate: 4 of 16 answers. Without it: The difference could be chance.",
        "The new version is worse: -50.0 points on 20 prompts.",
    ],
)
def test_a_rejected_version_is_called_what_it_is(agent: Agent, reason: str, monkeypatch):
    version = make_version(agent, "v2")
    make_run(agent, version=version)
    evaluation = make_evaluation(version, make_training_set(agent), verdict="reject")
    monkeypatch.setattr(training, "evaluation_tables", lambda evaluation: [])
    evaluation.report["reason"] = reason
    shown = TrainCommand(stdout=StringIO())
    shown.as_json, shown.report = False, ProgressLine(Console(quiet=True))
    with pytest.raises(GateRejected) as refusal:
        training.show_run(shown, version.run, evaluation)
    assert str(refusal.value) == f"the gate rejected support-chat v2, so it is not used: {reason}"
