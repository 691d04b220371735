"""A model on a server as the judge of an evaluation, checked on people's labels as the own judge is."""

from pathlib import Path

import pytest

from rl.base.records import GeneratedAnswer, silent
from rl.evaluation.evaluate import evaluate
from rl.evaluation.measures import fresh
from rl.evaluation.preferring import choose_judge
from rl.evaluation.subject import EvaluationOptions
from rl.management.tables import evaluation_tables
from tests.evaluation.conftest import pair
from tests.evaluation.judges.judging_server import JudgingServer, write_judges
from tests.evaluation.pair_sets import write_set
from tests.evaluation.test_evaluate import make_version

pytestmark = pytest.mark.learn

__all__ = ["make_version"]
SHORT, LONG = "In Orders, {}.", "We are very sorry to hear that, and ask you to be patient, {}."


@pytest.fixture
def judges(settings, server: JudgingServer, tmp_path: Path) -> JudgingServer:
    settings.JUDGES_FILE = write_judges(
        tmp_path / "judges.yaml", careful={"url": server.url, "model": "qwen", "seconds": 5}
    )
    return server


def rated(number: int, *, short_is_better: bool = True) -> dict:
    sides = (SHORT, LONG) if short_is_better else (LONG, SHORT)
    return {**pair(number % 5 + 1, *(side.format(number) for side in sides)), "prompt_key": f"q{number}", "weight": 1.0}


def measure(labelled: list[dict], new: str, old: str) -> fresh.Fresh | None:
    asked = [{"prompt": row["prompt"], "prompt_key": f"fresh {n}"} for n, row in enumerate(labelled[:12])]
    given = {
        name: [GeneratedAnswer(text.format(n), 5, 5) for n in range(len(asked))]
        for name, text in {"new": new, "base": old}.items()
    }
    return fresh.measure(choose_judge("careful", "", 0, silent), "dpo", labelled, asked, given)


def test_it_is_checked_on_peoples_labels(judges):
    """People like the shorter answer at 30 of 40 prompts, and it takes the shorter one at all of them."""
    measured = measure([rated(number, short_is_better=number >= 10) for number in range(40)], SHORT, LONG)
    assert measured
    assert (measured.judge.name, measured.judge.opinions) == ("careful (qwen)", 0)
    assert measured.judge.agreement.value == 0.75
    assert measured.forecast.value == 1
    assert measured.worst_case(0.95) < 0.5


def test_one_that_takes_a_side_whatever_is_said_decides_nothing(judges):
    judges.reply = "B"
    assert measure([rated(number) for number in range(40)], SHORT, LONG) is None


def test_it_is_not_asked_about_answers_to_different_questions(judges):
    rows = [{**rated(number), "rejected_prompt": [{"role": "user", "content": "Other"}]} for number in range(9)]
    judge = choose_judge("careful", "", 0, silent)
    judged = judge.compare([], [*rows, rated(9)], [])
    assert judged
    assert [key for key, _ in judged.checks] == ["q9"]


@pytest.mark.django_db
def test_an_evaluation_asks_the_agents_judge_and_one_that_is_down_leaves_it_open(
    judges, agent, make_version, adapter, data_dir
):
    agent.judge = "careful"
    agent.save()
    training_set = write_set(agent, [rated(number) for number in range(12)])
    evaluation = evaluate(make_version("v1", adapter), training_set, silent)
    assert judges.requests
    assert evaluation.report["evidence"][0]["judge"]["name"] == "careful (qwen)"
    compared = evaluation.report["compared"]
    assert {row["side"] for row in compared} <= {0.0, 0.5, 1.0}
    assert len(compared) == evaluation.report["evidence"][0]["prompts"]
    judges.failures = [403] * 99
    failed = evaluate(evaluation.version, training_set, silent)
    assert (failed.verdict, failed.report["decided_by"]) == ("undecided", "fresh")
    assert "judge careful at" in failed.report["reason"]
    assert "HTTP 403" in failed.report["evidence"][0]["problem"]
    assert {row["side"] for row in failed.report["compared"]} == {None}
    assert evaluation_tables(failed)
    own = evaluate(evaluation.version, training_set, silent, EvaluationOptions(judge="own"))
    assert "problem" not in own.report["evidence"][0]
    agent.judge = "gone"
    agent.save()
    evaluation.version.refresh_from_db()
    unknown = evaluate(evaluation.version, training_set, silent)
    assert "'gone'" in unknown.report["reason"]
