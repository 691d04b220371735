"""A new method is a record and a module: nothing else has to know its name."""

import ast
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from rl.base.records import TrainingResult, silent
from rl.config import METHODS, Method
from rl.config.methods import PAIRS, RowWork, all_rows
from rl.demo.load import load_demo
from rl.models import Agent, TrainingRun
from rl.runs import run as runs
from rl.runs import supervisor
from rl.runs.pipeline import TrainingPipeline

pytestmark = pytest.mark.django_db
TOY = Method(
    module="tests.training.toy_method",
    rows=replace(PAIRS, name="toy"),
    work=RowWork(1, 4),
    command="train toy",
    version="toy-v",
)


def compared_names(file: Path) -> list[str]:
    """Names of methods that something called method is compared with."""
    compared = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Compare)]
    compared = [node for node in compared if "method" in ast.unparse(node)]
    constants = [part.value for node in compared for part in ast.walk(node) if isinstance(part, ast.Constant)]
    return sorted(all_rows().keys() & set(constants))


def test_nobody_compares_the_name_of_a_method():
    """Another system's own names of methods are facts about it."""
    others = {"migrations", "from_systems"}
    files = [file for file in Path(settings.BASE_DIR, "rl").rglob("*.py") if others.isdisjoint(file.parts)]
    assert {str(file): names for file in files if (names := compared_names(file))} == {}


@pytest.fixture
def agent(data_dir, monkeypatch) -> Agent:
    monkeypatch.setitem(METHODS, "toy", TOY)
    agent = load_demo("tiny")
    quick = {**agent.training_overrides, "max_steps": 24, "learning_rate": 1e-3, "lora_r": 4}
    Agent.objects.filter(pk=agent.pk).update(training_overrides=quick, response_length=16)
    agent.refresh_from_db()
    return agent


def queue(agent: Agent) -> TrainingRun:
    config, options = TrainingPipeline(agent, method="toy").settings("toy", {}, {"val_split": 0.25})
    return runs.create(agent, method_name="toy", config=config, options=options)


@pytest.mark.learn
@pytest.mark.slow
def test_it_trains_and_is_measured_as_its_record_says(agent: Agent):
    run = queue(agent)
    assert run.claim()
    evaluation = runs.execute(run, silent)
    run.refresh_from_db()
    assert (run.state, run.step) == (TrainingRun.State.SUCCEEDED, 24)
    assert (run.training_set.method, run.training_set.pair_type) == ("toy", agent.pair_type)
    assert run.version.name == "toy-v1"
    assert evaluation.pairs == run.training_set.heldout_rows > 10
    losses = TrainingResult.load(run.directory / "result.json").loss_history
    assert fmean(losses[-6:]) < fmean(losses[:6])


def test_the_terminal_plans_it(agent: Agent, capsys):
    call_command("train", "toy", "--agent", agent.name, "--dry-run", "--json")
    assert '"method": "toy"' in capsys.readouterr().out
    with pytest.raises(CommandError, match="name a method: mpo, sft, dpo, kto, grpo, ppo, reward_model, toy"):
        call_command("train", "--agent", agent.name)


def test_the_queue_starts_it(agent: Agent, monkeypatch):
    monkeypatch.setattr(settings, "TRAINING_EXECUTOR", "ray")
    started = []
    monkeypatch.setattr(supervisor.ray_jobs, "submit", lambda run, command: started.extend(command))
    supervisor.spawn(queue(agent))
    assert started[2:5] == ["train", "toy", "--run"]


@pytest.mark.database
def test_a_stopped_run_is_resumed_by_its_command(agent: Agent):
    TrainingRun.objects.filter(pk=queue(agent).pk).update(state=TrainingRun.State.FAILED)
    with pytest.raises(CommandError, match="trains with toy: 'manage.py train toy --resume' goes on with it"):
        call_command("train", "dpo", "--agent", agent.name, "--resume", str(agent.runs.get().pk))
