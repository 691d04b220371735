"""Real answers of the tiny model, rewarded by a reward of this file."""

import shutil
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from rl.base.manner import Manner
from rl.base.records import AnswerScore, GeneratedAnswer, TraceRecord, silent
from rl.config import GRPOConfig
from rl.data_formatter.fresh import fresh_trace
from rl.environments.settings import EnvironmentSettings
from rl.evaluation import Contest
from rl.evaluation.evaluate import evaluate, evaluate_checkpoint
from rl.evaluation.held_out import latest_training_set
from rl.evaluation.measures import reward as reward_measure
from rl.evaluation.torch.answering import answer_versions
from rl.evaluation.torch.solving import solve_versions
from rl.models import Agent, Deployment, ModelVersion, TrainingRun, TrainingSet
from rl.rewards.base import BaseReward, RewardResult
from rl.versions import versions
from tests.conftest import make_trace
from tests.evaluation.conftest import Row
from tests.evaluation.pair_sets import write_set
from tests.evaluation.task_sets import CONFIG, task_set, version_from
from tests.training.agents import task

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
    return write_set(agent, rows, method=method, content_hash=digest * 64, feedback_count=0)


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
    compared = evaluation.report["compared"]
    assert sum(new - old for old, new in (row["rewards"] for row in compared)) / 9 == pytest.approx(difference)
    assert {row["after"] for row in compared} == {answer.text for answer in expected["new"] if answer}
    worst = evaluation.report["worst"]
    assert [example["reward"] - example["reward_in_use"] for example in worst] == sorted(
        example["reward"] - example["reward_in_use"] for example in worst
    )


def test_without_a_version_in_use_the_base_model_stands_for_it(agent, data_dir, tiny_base, adapter):
    training_set = held_out(agent, ROWS)
    evaluation = evaluate(version_of(agent, "v1", tiny_base, adapter, training_set), training_set, silent)
    assert (evaluation.against, evaluation.against_accuracy) == (None, evaluation.base_accuracy)


def test_each_group_of_prompts_has_an_interval_of_its_own(agent, data_dir, tiny_base, adapter):
    agent.group_by = "plan"
    agent.save()
    for row in ROWS:
        make_trace(agent, prompt_key=row["prompt_key"], details={"plan": "free"})
    training_set = held_out(agent, ROWS)
    report = evaluate(version_of(agent, "v1", tiny_base, adapter, training_set), training_set, silent).report
    (row,) = report["groups"]["rows"]
    assert (row["group"], row["prompts"], row["interval"]) == ("plan = free", 9, report["difference"])


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
    contest = reward_measure.Contest("base", Path("adapter"), ("other", Path("adapter"), Manner()), 96, 8)
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


HELD_OUT = [task(number) for number in range(9)]
TASKS = [row["task"] for row in HELD_OUT]


def contest(base: Path, adapter: Path, current: tuple[str, Path, bool] | None = None) -> Contest:
    return Contest(str(base), adapter, current, 256, 8)


def shares(episodes: dict[str, list[Any]]) -> dict[str, float]:
    return {name: fmean(episode.success for episode in of_model) for name, of_model in episodes.items()}


def test_the_shares_of_solved_tasks_of_all_three_models_are_compared(
    agent: Agent, data_dir, tiny_base: Path, adapter: Path, other_adapter: Path
):
    learned = task_set(agent, [20], list(range(9)))
    champion = version_from(agent, "tasks-v1", tiny_base, learned, other_adapter)
    Deployment.promote(champion)
    evaluation = evaluate(version_from(agent, "tasks-v1.2", tiny_base, learned, adapter), learned, silent)
    compared = {"base": None, "new": adapter, "current": other_adapter}
    expected = shares(solve_versions(str(tiny_base), compared, TASKS, CONFIG, silent))
    assert len(set(expected.values())) > 1, "else nothing is compared"
    assert (evaluation.report["measure"], evaluation.against, evaluation.prompts) == ("success", champion, 9)
    assert evaluation.accuracy == pytest.approx(expected["new"])
    assert evaluation.base_accuracy == pytest.approx(expected["base"])
    assert evaluation.against_accuracy == pytest.approx(expected["current"])
    assert evaluation.report["difference"]["value"] == pytest.approx(expected["new"] - expected["current"])
    assert (evaluation.report["unscored"], evaluation.report["learned"]) == (0, 0)
    assert len(evaluation.report["worst"]) == 9


def test_a_version_that_learned_from_answers_is_tried_on_tasks_too(
    agent: Agent, data_dir, tiny_base: Path, adapter: Path
):
    Agent.objects.filter(pk=agent.pk).update(context_length=256, response_length=8)
    agent.refresh_from_db()
    version = version_of(agent, "v0", tiny_base, adapter, held_out(agent, ROWS))
    evaluation = evaluate(version, task_set(agent, [20], list(range(9)), digest="1"), silent)
    [expected] = solve_versions(str(tiny_base), {"new": adapter}, TASKS, CONFIG, silent).values()
    assert evaluation.accuracy == pytest.approx(fmean(episode.success for episode in expected))


def test_tasks_are_tried_in_the_environment_of_their_set(agent: Agent, data_dir, tiny_base: Path, adapter: Path):
    hopeless = EnvironmentSettings("tests.training.worlds:Patient", {"rounds": 1})
    tasks = task_set(agent, [20], list(range(9)), settings=hopeless)
    evaluation = evaluate(version_from(agent, "tasks-v1", tiny_base, tasks, adapter), tasks, silent)
    assert (evaluation.accuracy, evaluation.verdict) == (0, "undecided"), "its run was in another one"


def test_a_checkpoint_is_tried_too_and_nothing_is_stored(agent: Agent, data_dir, tiny_base: Path, adapter: Path):
    Agent.objects.filter(pk=agent.pk).update(context_length=256, response_length=8)
    agent.refresh_from_db()
    task_set(agent, [20], list(range(9)))
    report = evaluate_checkpoint(agent, adapter, silent)
    assert (report["checkpoint"], report["measure"], report["pairs"]) == (str(adapter), "success", 9)
    assert report["models"]["current"] == report["models"]["base"]
    assert not agent.versions.exists()


def test_a_task_whose_world_broke_under_one_model_counts_for_none(tiny_base: Path, adapter: Path):
    rows = [*HELD_OUT, task(9, broken=True)]
    fragile = EnvironmentSettings("tests.training.worlds:Fragile")
    config = CONFIG.with_overrides({"environment": asdict(fragile)})
    earnings = reward_measure.compare_success(contest(tiny_base, adapter), rows, config, silent)
    assert (len(earnings.rows), earnings.unscored) == (9, 1)
    assert "t9" not in [row["task"]["task_id"] for row in earnings.rows]
    assert [len(of_model) for of_model in earnings.answers.values()] == [9, 9, 9]


def test_a_version_in_use_on_another_base_model_is_tried_on_its_own(
    tiny_base: Path, adapter: Path, other_adapter: Path, tmp_path: Path
):
    other_base = Path(shutil.copytree(tiny_base, tmp_path / "other"))
    earnings = reward_measure.compare_success(
        contest(tiny_base, adapter, (str(other_base), other_adapter, Manner())), HELD_OUT, CONFIG, silent
    )
    same = reward_measure.compare_success(
        contest(tiny_base, adapter, (str(tiny_base), other_adapter, Manner())), HELD_OUT, CONFIG, silent
    )
    assert earnings == same
    assert earnings.answers["current"] != earnings.answers["base"]
    assert earnings.answers["current"] != earnings.answers["new"]


def test_without_tasks_no_model_is_loaded():
    earnings = reward_measure.compare_success(contest(Path("nowhere"), Path("nowhere")), [], CONFIG, silent)
    assert (earnings.rows, earnings.unscored, earnings.mean("new")) == ([], 0, 0.0)


def test_no_more_tasks_are_tried_than_answers_are_asked_for_and_their_order_does_not_matter(
    tiny_base: Path, adapter: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reward_measure, "MOST_PROMPTS", 4)
    earnings = reward_measure.compare_success(contest(tiny_base, adapter), HELD_OUT, CONFIG, silent)
    assert len(earnings.rows) == 4
    assert reward_measure.compare_success(contest(tiny_base, adapter), HELD_OUT[::-1], CONFIG, silent) == earnings
