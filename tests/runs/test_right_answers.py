"""A job with right answers, from its corrections to a verdict: with real training on the tiny model."""

import pytest

from rl.base.records import Report, silent
from rl.config.authority import Owner
from rl.dataset_builder import DataOptions
from rl.models import Agent, TrainingRun
from rl.runs import run as runs
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate

pytestmark = [pytest.mark.django_db, pytest.mark.learn]


@pytest.fixture
def routing(data_dir) -> Agent:
    agent = Agent.objects.create(name="routing", base_model="tiny", response_length=8)
    for number in range(12):
        question = f"{'Money' if number % 2 else 'Card'} question {number}?"
        rate(make_trace(agent, question, "cash" if number % 2 else "cards"), 1)
        rate(make_trace(agent, question, "cards" if number % 2 else "cash"), 0)
    return agent


def trained(agent: Agent, method: str, report: Report = silent) -> TrainingRun:
    config = agent.training_config(method).with_overrides({"max_steps": 2, "lora_r": 4, "batch_size": 4})
    options = runs.RunOptions(data=DataOptions(min_samples=4))
    run = runs.create(agent, method_name=method, config=config, options=options, by=Owner.OPERATOR)
    assert run.claim()
    runs.execute(run, report)
    run.refresh_from_db()
    return run


@pytest.mark.parametrize("method", ["mpo", "sft"])
def test_a_few_corrections_are_all_learned_and_the_verdict_is_by_right_answers(routing: Agent, method: str) -> None:
    run = trained(routing, method)
    assert (run.training_set.train_rows, run.training_set.heldout_rows) == (12, 0)
    evaluation = run.version.evaluations.get()
    report = evaluation.report
    assert (report["measure"], report["decided_by"], report["cross_fitted"]) == ("right", "right", True)
    assert report["answers"]["kind"] == "closed"
    assert (evaluation.prompts, report["right"]["new"]) == (12, round(12 * evaluation.accuracy))
    assert report["said"].startswith(f"Right in {report['right']['new']} of 12 (was {report['right']['current']})")
    assert {row["name"] for row in report["classes"]["rows"]} == {"cash", "cards"}
    assert {rail["name"] for rail in report["guards"]["rails"]} >= {"off_kind_rate", "sameness"}


def test_the_run_says_why_preferences_are_left_out(routing: Agent) -> None:
    said: list[str] = []
    run = trained(routing, "mpo", lambda event, values: said.append(values.get("text", "")))
    assert run.config["preferences"] is False
    assert any("answers are closed (12 accepted answers are 2 distinct ones)" in text for text in said)


def test_likes_alone_are_enough_where_answers_are_right_or_wrong(data_dir) -> None:
    agent = Agent.objects.create(name="liked", base_model="tiny", response_length=8)
    for number in range(12):
        rate(make_trace(agent, f"Question {number}?", "cash" if number % 2 else "cards"), 1)
    run = trained(agent, "mpo")
    assert (run.state, run.version.evaluations.get().report["measure"]) == (TrainingRun.State.SUCCEEDED, "right")
