"""Real episodes of the tiny model, in an environment that rewards answers of even length."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from rl.base.records import silent
from rl.environments.settings import EnvironmentSettings
from rl.evaluation.contest import Contest
from rl.evaluation.evaluate import evaluate, evaluate_checkpoint
from rl.evaluation.measures import success as success_measure
from rl.evaluation.torch.solving import solve_versions
from rl.models import Agent, Deployment
from tests.evaluation.measures.test_reward import ROWS, held_out
from tests.evaluation.measures.test_reward import version_of as version_of_prompts
from tests.evaluation.task_sets import CONFIG, task_set, version_from
from tests.training.agents import task

pytestmark = pytest.mark.learn

HELD_OUT = [task(number) for number in range(9)]
TASKS = [row["task"] for row in HELD_OUT]


def contest(base: Path, adapter: Path, current: tuple[str, Path] | None = None) -> Contest:
    return Contest(str(base), adapter, current, 256, 8)


def shares(episodes: dict[str, list[Any]]) -> dict[str, float]:
    return {name: fmean(episode.success for episode in of_model) for name, of_model in episodes.items()}


@pytest.mark.django_db
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


@pytest.mark.django_db
def test_a_version_that_learned_from_answers_is_tried_on_tasks_too(
    agent: Agent, data_dir, tiny_base: Path, adapter: Path
):
    Agent.objects.filter(pk=agent.pk).update(context_length=256, response_length=8)
    agent.refresh_from_db()
    version = version_of_prompts(agent, "v0", tiny_base, adapter, held_out(agent, ROWS))
    evaluation = evaluate(version, task_set(agent, [20], list(range(9)), digest="1"), silent)
    [expected] = solve_versions(str(tiny_base), {"new": adapter}, TASKS, CONFIG, silent).values()
    assert evaluation.accuracy == pytest.approx(fmean(episode.success for episode in expected))


@pytest.mark.django_db
def test_tasks_are_tried_in_the_environment_of_their_set(agent: Agent, data_dir, tiny_base: Path, adapter: Path):
    hopeless = EnvironmentSettings("tests.training.worlds:Patient", {"rounds": 1})
    tasks = task_set(agent, [20], list(range(9)), settings=hopeless)
    evaluation = evaluate(version_from(agent, "tasks-v1", tiny_base, tasks, adapter), tasks, silent)
    assert (evaluation.accuracy, evaluation.verdict) == (0, "undecided"), "its run was in another one"


@pytest.mark.django_db
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
    earnings = success_measure.compare(contest(tiny_base, adapter), rows, config, silent)
    assert (len(earnings.rows), earnings.unscored) == (9, 1)
    assert "t9" not in [row["task"]["task_id"] for row in earnings.rows]
    assert [len(of_model) for of_model in earnings.answers.values()] == [9, 9, 9]


def test_a_version_in_use_on_another_base_model_is_tried_on_its_own(
    tiny_base: Path, adapter: Path, other_adapter: Path, tmp_path: Path
):
    other_base = Path(shutil.copytree(tiny_base, tmp_path / "other"))
    earnings = success_measure.compare(
        contest(tiny_base, adapter, (str(other_base), other_adapter)), HELD_OUT, CONFIG, silent
    )
    same = success_measure.compare(
        contest(tiny_base, adapter, (str(tiny_base), other_adapter)), HELD_OUT, CONFIG, silent
    )
    assert earnings == same
    assert earnings.answers["current"] != earnings.answers["base"]
    assert earnings.answers["current"] != earnings.answers["new"]


def test_without_tasks_no_model_is_loaded():
    earnings = success_measure.compare(contest(Path("nowhere"), Path("nowhere")), [], CONFIG, silent)
    assert (earnings.rows, earnings.unscored, earnings.mean("new")) == ([], 0, 0.0)


def test_no_more_tasks_are_tried_than_answers_are_asked_for_and_their_order_does_not_matter(
    tiny_base: Path, adapter: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(success_measure, "MOST_PROMPTS", 4)
    earnings = success_measure.compare(contest(tiny_base, adapter), HELD_OUT, CONFIG, silent)
    assert len(earnings.rows) == 4
    assert success_measure.compare(contest(tiny_base, adapter), HELD_OUT[::-1], CONFIG, silent) == earnings
