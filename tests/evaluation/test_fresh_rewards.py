"""Every version's fresh answers are scored by the newest reward model of its agent, however the version was trained."""

from typing import Any

import pytest

from rl.base.errors import TrainingFailed
from rl.base.records import silent
from rl.evaluation import evaluate
from rl.models import Agent, Evaluation, ModelVersion, TrainingRun, TrainingSet
from rl.versions import versions
from tests.admin.records import make_evaluation, make_trace, make_training_set, make_version

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("data_dir")]


class Judge:
    """Likes short answers; a prompt of two messages is too long for it."""

    def score(self, prompt: list[dict[str, Any]], response: str) -> float | None:
        return None if len(prompt) > 1 else 1 / len(response)


@pytest.fixture(autouse=True)
def judge(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders that were loaded from."""
    loaded: list[str] = []
    scoring = type(
        "scoring", (), {"load": staticmethod(lambda folder: (loaded.append(folder.parent.name), Judge())[1])}
    )
    monkeypatch.setattr(evaluate, "leaf", lambda name: scoring)
    monkeypatch.setattr(versions, "weights_directory", lambda version: versions.version_directory(version) / "adapter")
    return loaded


def the_set(agent: Agent) -> TrainingSet:
    return agent.training_sets.first() or make_training_set(agent)


def reward_model(agent: Agent, name: str) -> Evaluation:
    version = make_version(agent, name)
    TrainingRun.objects.create(agent=agent, method="reward_model", version=version, state="succeeded")
    return make_evaluation(version, the_set(agent), verdict="undecided")


def measured(agent: Agent, name: str, *answers: str) -> Evaluation:
    """A version that has answered to stored prompts, and to one that is forgotten."""
    evaluation = make_evaluation(make_version(agent, name), the_set(agent))
    traces = [make_trace(agent, f"Question {number}?") for number in range(len(answers))]
    samples = [
        {"prompt": "x", "prompt_key": trace.prompt_key, "new": {"answer": answer}}
        for trace, answer in zip(traces, answers, strict=True)
    ]
    gone = {"prompt": "x", "prompt_key": "gone", "new": {"answer": "a"}}
    evaluation.report = {"guards": {"samples": [*samples, gone, {"prompt": "of an earlier release"}]}}
    evaluation.save()
    return evaluation


def figure(evaluation: Evaluation) -> dict[str, Any] | None:
    evaluation.refresh_from_db()
    return evaluation.report.get("fresh_reward")


def test_a_version_is_scored_by_the_newest_reward_model(agent: Agent, judge: list[str]):
    evaluation = measured(agent, "v1", "ab", "abcd")
    evaluate.reward_fresh_answers(evaluation, silent)
    assert (figure(evaluation), judge) == (None, [])
    reward_model(agent, "reward-v1")
    reward_model(agent, "reward-v2")
    evaluate.reward_fresh_answers(evaluation, silent)
    assert figure(evaluation) == {"reward_model": "reward-v2", "mean": 0.375, "std": 0.125, "answers": 2}
    assert judge == ["reward-v2"]


def test_a_new_reward_model_scores_the_versions_that_are_there(agent: Agent, judge: list[str]):
    first, second = measured(agent, "v1", "ab"), measured(agent, "v2", "abcd")
    unanswered = make_evaluation(make_version(agent, "v3"), the_set(agent))
    evaluate.reward_fresh_answers(reward_model(agent, "reward-v4"), silent)
    assert [figure(evaluation)["mean"] for evaluation in (first, second)] == [0.5, 0.25]
    assert (figure(unanswered), judge) == (None, ["reward-v4"])


@pytest.mark.parametrize("how", ["rejected", "now"])
def test_a_rejected_reward_model_scores_nothing(agent: Agent, judge: list[str], how: str):
    evaluation, rejected = measured(agent, "v1", "ab"), reward_model(agent, "reward-v1")
    ModelVersion.objects.filter(pk=rejected.version_id).update(stage="rejected" if how == "rejected" else "candidate")
    rejected.verdict = "reject"
    evaluate.reward_fresh_answers(evaluation if how == "rejected" else rejected, silent)
    assert (figure(evaluation), judge) == (None, [])


def test_one_that_cannot_be_loaded_costs_the_figure_and_not_the_version(agent: Agent, monkeypatch):
    evaluation, logged = measured(agent, "v1", "ab"), []
    reward_model(agent, "reward-v1")

    def load(folder):
        raise TrainingFailed("it is damaged")

    monkeypatch.setattr(evaluate, "leaf", lambda name: type("scoring", (), {"load": staticmethod(load)}))
    evaluate.reward_fresh_answers(evaluation, lambda event, values: logged.append(values.get("text")))
    assert (figure(evaluation), logged[-1:]) == (None, ["fresh answers are not scored by reward-v1: it is damaged"])


def test_answers_of_prompts_that_are_too_long_are_left_out(agent: Agent):
    evaluation = measured(agent, "v1", "ab")
    long = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Question 0?"}]
    agent.traces.update(prompt=long)
    reward_model(agent, "reward-v1")
    evaluate.reward_fresh_answers(evaluation, silent)
    assert figure(evaluation) is None
