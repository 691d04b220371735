"""Real answers of the tiny model, rewarded by a reward of this file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from rl.base.records import AnswerScore, GeneratedAnswer, TraceRecord, silent
from rl.config import GRPOConfig
from rl.data_formatter.fresh import fresh_trace
from rl.evaluation.evaluate import evaluate, evaluate_checkpoint
from rl.evaluation.held_out import latest_training_set
from rl.evaluation.measures import reward as reward_measure
from rl.evaluation.torch.answering import answer_versions
from rl.models import Agent, Deployment, ModelVersion, TrainingRun, TrainingSet
from rl.rewards.base import BaseReward, RewardResult
from rl.versions import versions
from tests.evaluation.conftest import Row

pytestmark = [pytest.mark.learn, pytest.mark.django_db]
LENGTHS: dict[str, Any] = {"max_length": 96, "max_new_tokens": 8, "report": silent}


class Vowels(BaseReward):
    name = "vowels"

    def compute(self, trace: TraceRecord) -> RewardResult:
        if not trace.response:
            return self.abstains("it says nothing")
        return self.gives(sum(letter in "aeiou" for letter in trace.response) / len(trace.response), "share of vowels")


@pytest.fixture(autouse=True)
def vowels(settings: Any) -> None:
    settings.CUSTOM_REWARDS = {"vowels": "tests.evaluation.measures.test_reward.Vowels"}


def prompt_row(number: int, words: int = 1) -> Row:
    prompt = [{"role": "user", "content": f"Where is parcel {number}?" * words}]
    return {"prompt": prompt, "prompt_key": f"q{number}", "split_key": f"q{number}", "details": {}, "feedback": []}


ROWS = [prompt_row(number) for number in range(9)]
TOO_LONG = prompt_row(99, words=40)


def held_out(agent: Agent, rows: list[Row], method: str = "prompts", digest: str = "0") -> TrainingSet:
    training_set = TrainingSet.objects.create(
        agent=agent,
        method=method,
        content_hash=digest * 64,
        train_rows=1,
        heldout_rows=len(rows),
        feedback_count=0,
        val_split=0.2,
        stats={"prompts": 10},
    )
    training_set.directory.mkdir(parents=True)
    (training_set.directory / "heldout.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return training_set


def version_of(agent: Agent, name: str, base: Path, adapter: Path, learned_from: TrainingSet) -> ModelVersion:
    version = ModelVersion.objects.create(agent=agent, name=name, base_model=str(base), feedback_count=0)
    config = GRPOConfig().with_overrides({"max_length": 96, "max_new_tokens": 8}).as_dict()
    TrainingRun.objects.create(
        agent=agent,
        method="grpo",
        config=config,
        options={"rewards": "vowels"},
        version=version,
        training_set=learned_from,
        state=TrainingRun.State.SUCCEEDED,
    )
    shutil.copytree(adapter, versions.version_directory(version) / "adapter")
    return version


def mean_vowels(answers: list[GeneratedAnswer | None]) -> float:
    return fmean(sum(letter in "aeiou" for letter in answer.text) / len(answer.text) for answer in answers if answer)


def test_the_answers_of_all_three_models_are_rewarded_and_compared(agent, data_dir, tiny_base, adapter, other_adapter):
    training_set = held_out(agent, [TOO_LONG, *ROWS])
    champion = version_of(agent, "v1", tiny_base, other_adapter, training_set)
    Deployment.promote(champion)
    evaluation = evaluate(version_of(agent, "v2", tiny_base, adapter, training_set), training_set, silent)
    adapters = {"new": adapter, "base": None, "current": other_adapter}
    expected = answer_versions(str(tiny_base), adapters, ROWS, **LENGTHS)
    assert evaluation.report["measure"] == "reward"
    assert (evaluation.against, evaluation.pairs, evaluation.prompts) == (champion, 9, 9)
    assert (evaluation.report["unscored"], evaluation.report["learned"]) == (1, 0)
    for name, stored in (("new", "accuracy"), ("base", "base_accuracy"), ("current", "against_accuracy")):
        assert evaluation.report["models"][name]["reward"]["value"] == pytest.approx(mean_vowels(expected[name]))
        assert getattr(evaluation, stored) == pytest.approx(mean_vowels(expected[name]))
    difference = evaluation.accuracy - evaluation.against_accuracy
    assert evaluation.report["difference"]["value"] == pytest.approx(difference)
    assert evaluation.ratings_needed is None
    worst = evaluation.report["worst"]
    assert [example["reward"] - example["reward_in_use"] for example in worst] == sorted(
        example["reward"] - example["reward_in_use"] for example in worst
    )


def test_without_a_version_in_use_the_base_model_stands_for_it(agent, data_dir, tiny_base, adapter):
    training_set = held_out(agent, ROWS)
    evaluation = evaluate(version_of(agent, "v1", tiny_base, adapter, training_set), training_set, silent)
    assert (evaluation.against, evaluation.against_accuracy) == (None, evaluation.base_accuracy)


def test_nothing_held_out_is_undecided(agent, data_dir, tiny_base, adapter):
    training_set = held_out(agent, [])
    evaluation = evaluate(version_of(agent, "v1", tiny_base, adapter, training_set), training_set, silent)
    assert (evaluation.verdict, evaluation.prompts, evaluation.accuracy) == ("undecided", 0, 0)
    assert evaluation.report["reason"].startswith("0 prompts held out that could be rewarded, and at least 8")


def test_a_checkpoint_is_measured_by_reward_where_there_are_only_prompts(agent, data_dir, tiny_base, adapter):
    Agent.objects.filter(pk=agent.pk).update(context_length=96, response_length=8)
    agent.refresh_from_db()
    held_out(agent, ROWS)
    report = evaluate_checkpoint(agent, adapter, silent)
    assert (report["checkpoint"], report["measure"], report["pairs"]) == (str(adapter), "reward", 9)
    assert report["models"]["current"] == report["models"]["base"]


def test_a_version_is_measured_on_the_kind_of_rows_that_it_learned_from(agent, data_dir, tiny_base, adapter):
    prompts, pairs = held_out(agent, ROWS), held_out(agent, ROWS, "dpo", "1")
    held_out(agent, ROWS, "reward", "2")
    of_prompts = version_of(agent, "v1", tiny_base, adapter, prompts)
    of_pairs = version_of(agent, "v2", tiny_base, adapter, pairs)
    newest = held_out(agent, ROWS, "prompts", "3")
    assert latest_training_set(agent, of_prompts) == newest
    assert latest_training_set(agent, of_pairs) == latest_training_set(agent) == pairs


def test_answers_are_the_same_again_and_end_where_the_model_ends_them(tiny_base):
    first, again = (answer_versions(str(tiny_base), {"base": None}, ROWS, **LENGTHS)["base"] for _ in range(2))
    assert first == again
    assert all(answer and answer.tokens_in > 4 and 0 < answer.tokens_out <= 8 for answer in first)


def test_no_more_than_200_prompts_are_asked_and_they_are_chosen_by_their_keys(monkeypatch):
    seen: list[list[Row]] = []

    class Leaf:
        @staticmethod
        def answer_versions(base, adapters, rows, **lengths):
            seen.append(rows)
            return {name: [GeneratedAnswer("a", 1, 1)] * len(rows) for name in adapters}

    monkeypatch.setattr(reward_measure, "leaf", lambda path: Leaf)
    contest = reward_measure.Contest("base", Path("adapter"), None, 96, 8)
    rows = [prompt_row(number) for number in range(300)]
    earnings = reward_measure.compare(contest, rows, lambda trace: AnswerScore(1.0), silent)
    reward_measure.compare(contest, rows[::-1], lambda trace: AnswerScore(1.0), silent)
    assert len(earnings.rows) == 200
    assert seen[0] == seen[1]


def test_a_prompt_whose_answer_no_reward_applies_to_is_left_out_for_all(monkeypatch):
    class Leaf:
        @staticmethod
        def answer_versions(base, adapters, rows, **lengths):
            return {name: [GeneratedAnswer(f"{name}{n}", 1, 1) for n in range(len(rows))] for name in adapters}

    monkeypatch.setattr(reward_measure, "leaf", lambda path: Leaf)
    contest = reward_measure.Contest("base", Path("adapter"), ("other", Path("adapter")), 96, 8)
    scorer = lambda trace: AnswerScore(None if trace.response == "current0" else 1.0)  # noqa: E731
    earnings = reward_measure.compare(contest, ROWS, scorer, silent)
    assert (len(earnings.rows), earnings.unscored) == (8, 1)
    assert earnings.answers["new"] == [f"new{number}" for number in range(1, 9)]


def test_a_fresh_answer_is_rewarded_with_the_details_of_its_prompt():
    trace = fresh_trace({**prompt_row(1), "details": {"tests": [1]}}, "Here.", 3, 2)
    assert (trace.details, trace.question, trace.tokens_in, trace.tokens_out) == (
        {"tests": [1]},
        "Where is parcel 1?",
        3,
        2,
    )
