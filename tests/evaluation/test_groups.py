"""A version that is better on the whole, and worse for some."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rl.base.records import GeneratedAnswer, silent
from rl.evaluation import evaluate as evaluating
from rl.evaluation.duels import Picks
from rl.evaluation.gate import REWARD, Verdict
from rl.evaluation.groups import Groups, of_changes, of_picks, of_preferences
from rl.evaluation.held_out import HeldOut
from rl.evaluation.measures import reward
from rl.evaluation.measures.fresh import Fresh
from rl.evaluation.preferring import weigh
from rl.models import Agent
from rl.versions import versions
from tests.admin.records import make_run, make_version
from tests.conftest import make_trace
from tests.evaluation.test_weighing import MARGINS, fresh, terms

pytestmark = pytest.mark.django_db
ENGLISH = 24


@pytest.fixture
def agent(agent: Agent) -> Agent:
    agent.group_by = "language"
    agent.save()
    return agent


def ask(agent: Agent, german: int, english: int = ENGLISH) -> tuple[str, ...]:
    """Prompt keys, the German ones first."""
    languages = ["de"] * german + ["en"] * english
    return tuple(
        make_trace(agent, f"Question {number}", details={"language": language}).prompt_key
        for number, language in enumerate(languages)
    )


def judged(keys: Sequence[str], lost: int) -> Fresh:
    """The first prompts are lost, all others won."""
    sides = tuple(float(number >= lost) for number in range(len(keys)))
    return replace(fresh(1.0, right=40), sides=sides, keys=tuple(keys))


def picked(keys: Sequence[str], lost: int) -> Picks:
    return Picks(tuple(float(number >= lost) for number in range(len(keys))), len(keys), tuple(keys))


def verdict_of(groups: Groups, verdict: Verdict) -> tuple[str, str]:
    over = groups.over(verdict)
    return over.decision, over.reason


def test_better_on_the_whole_by_a_judge_and_worse_for_some_is_for_a_person_to_decide(agent: Agent):
    compared = judged(ask(agent, 8, 100), lost=8)
    weighed = weigh(None, compared, MARGINS, terms())
    assert weighed.verdict.decision == "promote"
    groups = of_preferences(agent, "fresh", None, compared)
    decision, reason = verdict_of(groups, weighed.verdict)
    assert decision == "undecided"
    assert reason.startswith(
        "Better on the whole, but worse for language = de: preferred in 0% (0% to 20%) of 8 answers. "
        "It does not go into use by itself: a person decides. Without that: The new version is better: "
    )
    rows = groups.report["groups"]["rows"]
    assert [(row["group"], row["prompts"], row["worse"]) for row in rows] == [
        ("language = en", 100, False),
        ("language = de", 8, True),
    ]


def test_a_version_that_is_as_good_for_all_is_promoted(agent: Agent):
    compared = judged(ask(agent, 12), lost=4)
    groups = of_preferences(agent, "fresh", None, compared)
    verdict = Verdict("promote", compared.forecast, "It is better.")
    assert groups.over(verdict) is verdict
    assert [row["worse"] for row in groups.rows] == [False, False]


@pytest.mark.parametrize("decision", ["reject", "undecided"])
def test_other_verdicts_stay_as_they_are(agent: Agent, decision: Any):
    compared = judged(ask(agent, 12), lost=12)
    verdict = Verdict(decision, compared.forecast, "As it is.")
    assert of_preferences(agent, "fresh", None, compared).over(verdict) is verdict


def test_a_margin_is_bearable_for_groups_too(agent: Agent):
    compared = judged(ask(agent, 16), lost=14)
    verdict = Verdict("promote", compared.forecast, "It is not worse by more than 45 points.")
    assert verdict_of(of_preferences(agent, "fresh", None, compared), verdict)[0] == "undecided"
    agent.gate_margin = 0.45
    assert verdict_of(of_preferences(agent, "fresh", None, compared), verdict)[0] == "promote"


def test_groups_with_few_prompts_are_counted_and_not_looked_at(agent: Agent):
    groups = of_preferences(agent, "fresh", None, judged(ask(agent, 7), lost=7))
    assert ([row["group"] for row in groups.rows], groups.left_out) == (["language = en"], 1)


def test_the_more_groups_are_looked_at_the_more_it_takes(agent: Agent):
    one = of_picks(agent, picked(ask(agent, 9, 0), lost=9), ())
    agent.group_by = "language, plan, topic"
    for number in range(9):
        make_trace(agent, f"Question {number}", details={"plan": "free", "topic": "bread"})
    three = of_picks(agent, picked(ask(agent, 9, 0), lost=9), ())
    assert len(three.rows) == 3
    assert three.rows[0]["interval"]["high"] > one.rows[0]["interval"]["high"]


def test_an_agent_without_groups_has_none(agent: Agent, django_assert_num_queries):
    compared = judged(ask(agent, 12), lost=12)
    agent.group_by = ""
    with django_assert_num_queries(0):
        assert of_preferences(agent, "fresh", None, compared).report == {}


def test_a_judge_that_decides_nothing_harms_nobody(agent: Agent):
    compared = judged(ask(agent, 12), lost=12)
    assert of_preferences(agent, "", None, compared).report == {}
    guessing = replace(compared, judge=fresh(0.5, right=21).judge)
    assert of_preferences(agent, "picks", picked([], 0), guessing).rows == []


# --- people's picks ---------------------------------------------------------------------------------------------------


def test_picks_that_promote_are_held_back_by_a_group_that_they_call_worse(agent: Agent):
    counted = picked(ask(agent, 14, 60), lost=14)
    weighed = weigh(counted, None, MARGINS, terms())
    assert weighed.verdict.decision == "promote"
    decision, reason = verdict_of(of_picks(agent, counted, ()), weighed.verdict)
    assert decision == "undecided"
    assert "worse for language = de: preferred in 0% (0% to 44%) of 14 comparisons" in reason


@pytest.mark.parametrize(("german", "lost", "worse"), [(4, 0, True), (12, 9, True), (12, 6, False)])
def test_a_group_that_a_judge_called_worse_is_so_until_people_see_it_as_good(
    agent: Agent, german: int, lost: int, worse: bool
):
    keys = ask(agent, 12)
    by_judge = of_preferences(agent, "fresh", None, judged(keys, lost=12))
    counted = picked((*keys[:german], *keys[12:]), lost)
    groups = of_picks(agent, counted, by_judge.rows)
    assert {row["group"]: row["worse"] for row in groups.rows} == {"language = en": False, "language = de": worse}


# --- right answers and rewards ----------------------------------------------------------------------------------------


class Answering:
    """The new version is right in English alone, the base model in the first half of German."""

    def __init__(self, german: int) -> None:
        self.german = german

    def answer_versions(self, base: str, compared: Any, rows: Sequence[Any], **options: Any) -> dict[str, Any]:
        numbers = [int(row["prompt"][-1]["content"].split()[1]) for row in rows]
        right = {
            "new": [number >= self.german for number in numbers],
            "base": [number < self.german for number in numbers],
        }
        return {name: [GeneratedAnswer(f'{{"a": {int(one)}}}', 1, 1) for one in right[name]] for name in compared}


@pytest.mark.parametrize(("german", "decision"), [(12, "undecided"), (6, "promote")])
def test_more_right_answers_on_the_whole_and_fewer_for_some_is_for_a_person_to_decide(
    agent: Agent, data_dir: Path, monkeypatch: pytest.MonkeyPatch, german: int, decision: str
):
    version = make_version(agent, "v1")
    make_run(agent, version=version, options={})
    version.run.config = {"max_length": 96}
    version.run.save()
    config = versions.version_directory(version) / "adapter/adapter_config.json"
    config.parent.mkdir(parents=True)
    config.write_text("{}")
    monkeypatch.setattr(reward, "leaf", lambda path: Answering(german))
    rows = [
        {"prompt": [{"role": "user", "content": f"Question {number}"}], "prompt_key": key, "reward": None}
        | {"details": {"expected": {"a": 1}}}
        for number, key in enumerate(ask(agent, german, 60))
    ]
    report = evaluating.evaluate_answers(agent, version, HeldOut(rows, 1.0, 0), silent)
    assert report["verdict"] == decision
    harmed = (
        "Better on the whole, but worse for language = de: -1.000 (-1.000 to -1.000) of answers right on 12 prompts."
    )
    assert (harmed in report["reason"]) == (decision == "undecided")
    assert report["groups"]["left_out"] == (german == 6)


def test_a_loss_that_is_too_small_to_matter_harms_nobody(agent: Agent):
    keys = ask(agent, 12, 0)
    assert not of_changes(agent, keys, [-0.001] * 12, REWARD).rows[0]["worse"]
    assert of_changes(agent, keys, [-0.1] * 12, REWARD).rows[0]["worse"]
