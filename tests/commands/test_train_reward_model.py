from __future__ import annotations

import json

import pytest

from tests.commands.site import Site

pytestmark = pytest.mark.process


TRAIN = ("train_reward_model", "--agent", "support-chat", "--val-split", "0.25")


@pytest.mark.slow
def test_pairs_lead_to_a_reward_model_that_is_measured_and_never_used(site: Site):
    document = site.json(*TRAIN)
    assert document["version"] == "reward-v1"
    evaluation = document["evaluation"]
    assert evaluation["models"]["base"]["accuracy"]["value"] == 0.5
    assert evaluation["models"]["new"]["accuracy"]["value"] > 0.8
    assert evaluation["verdict"] == "undecided"
    assert "it scores answers, and is never promoted" in evaluation["reason"]
    assert 0 <= evaluation["calibration_error"] < 0.5
    assert site.query("SELECT state, method FROM rl_trainingrun") == [("succeeded", "reward_model")]
    assert site.query("SELECT stage FROM rl_modelversion") == [("evaluated",)]
    assert site.query("SELECT id FROM rl_deployment") == []
    metrics = json.loads((site.data / "runs" / "1" / "result.json").read_text())["metrics"]
    assert {"heldout_accuracy", "heldout_calibration_error", "heldout_pairs"} <= metrics.keys()
    result = site.run("export_model", "--agent", "support-chat", "--version", "reward-v1", expect=2)
    assert "is a reward model: it scores answers, and is not exported" in result.stderr


def test_the_dry_run_counts_pairs(site: Site):
    document = site.json(*TRAIN, "--dry-run")
    assert document["method"] == "reward_model"
    assert document["data"]["train_rows"] > 50
    assert document["config"]["center_rewards"] == 0.01
    assert document["estimate"]["steps"] > 10


def test_too_few_pairs_exit_with_3_before_anything_is_loaded(site: Site):
    result = site.run(*TRAIN, "--min-samples", "5000", expect=3)
    assert "112 pairs and 32 single scored answers make 144 rows, and 5,000 are needed" in result.stderr
    assert "loading the base model" not in result.stderr
