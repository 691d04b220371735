"""Reward models that learned from scored answers, measured on rows that are held out."""

from dataclasses import replace
from pathlib import Path

import pytest

from rl.base.records import silent
from rl.config import RewardModelConfig
from rl.evaluation.evaluate import evaluate_checkpoint
from rl.models import Agent
from rl.training import reward_model
from tests.evaluation.pair_sets import write_set
from tests.training.conftest import SMALL, job, polite_rows, scored_rows

pytestmark = [pytest.mark.learn, pytest.mark.django_db]


@pytest.fixture(scope="module")
def judge(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = RewardModelConfig().with_overrides({**SMALL, "seed": 1, "epochs": 6.0})
    made = replace(job(tiny_base, tmp_path_factory.mktemp("judge"), scored_rows(24)), config=config)
    return reward_model.train(made, silent).weights_dir


def test_scored_answers_are_measured_by_their_order_and_by_their_scores(agent: Agent, data_dir, judge: Path):
    write_set(agent, scored_rows(44)[24:], method="reward_model")
    report = evaluate_checkpoint(agent, judge, silent)
    assert (report["pairs"], report["models"]["new"]["accuracy"]["value"]) == (10, 1.0)
    assert report["models"]["base"]["accuracy"]["value"] == 0.5
    assert (report["verdict"], report["scored_answers"]) == ("undecided", 20)
    assert "it scores answers, and is never promoted" in report["reason"]
    assert report["brier_score"] < report["brier_score_of_mean"] / 2
    assert 0 < report["score_calibration_error"] < 0.2
    assert "calibration_error" not in report
    assert all("rejected_prompt" in example for example in report["worst"])


def test_one_that_ranks_scores_worse_than_guessing_is_rejected(agent: Agent, data_dir, judge: Path):
    turned = [{**row, "score": 1 - row["score"]} for row in scored_rows(44)[24:]]
    write_set(agent, turned, method="reward_model")
    assert evaluate_checkpoint(agent, judge, silent)["verdict"] == "reject"


def test_pairs_beside_scored_answers_are_measured_as_ever(agent: Agent, data_dir, judge: Path):
    write_set(agent, [*polite_rows(30)[24:], *scored_rows(44)[30:]], method="reward_model")
    report = evaluate_checkpoint(agent, judge, silent)
    assert (report["pairs"], report["scored_answers"]) == (6 + 7, 14)
    assert {"calibration_error", "score_calibration_error"} <= report.keys()


def test_labels_of_answers_to_different_prompts_can_be_told_apart_too(agent: Agent, data_dir, judge: Path):
    rows = [{**row, "label": row["score"] > 0.5} for row in scored_rows(44)[24:]]
    write_set(agent, rows, method="kto")
    assert evaluate_checkpoint(agent, judge, silent)["models"]["new"]["accuracy"]["value"] == 1.0
