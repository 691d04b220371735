"""Commands that train on what people said of answers: KTO, MPO, SFT and reward models."""

import json

import pytest

from tests.commands.site import Site

pytestmark = pytest.mark.process

HOW = ("--agent", "support-chat", "--val-split", "0.25")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "measured", "logged"),
    [
        ("kto", {"loss", "kl"}, "a bad one"),
        ("mpo", {"loss", "kl", "margin", "chosen_reward", "rejected_reward"}, "single answers: a liked one counts"),
    ],
)
def test_ratings_lead_to_a_version_that_the_gate_has_judged(site: Site, method: str, measured: set[str], logged: str):
    document = site.json(f"train_{method}", *HOW)
    assert document["version"].startswith("v")
    models = document["evaluation"]["models"]
    assert models["base"]["accuracy"]["value"] == 0.5
    assert models["new"]["accuracy"]["value"] > 0.6
    assert site.query("SELECT state, method FROM rl_trainingrun") == [("succeeded", method)]
    points = [json.loads(values) for (values,) in site.query('SELECT "values" FROM rl_metricpoint ORDER BY step')]
    assert measured <= set().union(*points)
    assert logged in (site.data / "runs" / "1" / "log.txt").read_text()


@pytest.mark.slow
def test_pairs_lead_to_a_reward_model_that_is_measured_and_never_used(site: Site):
    document = site.json("train_reward_model", *HOW)
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


def test_the_dry_run_counts_rows(site: Site):
    plans = {
        method: site.json(f"train_{method}", *HOW, "--dry-run") for method in ("kto", "mpo", "sft", "reward_model")
    }
    for method, plan in plans.items():
        assert plan["method"] == method
        assert plan["data"]["train_rows"] > (50 if method == "reward_model" else 100)
        assert plan["estimate"]["steps"] > 10
    assert 0.2 < plans["kto"]["data"]["score_mean"] < 0.8
    assert plans["reward_model"]["config"]["center_rewards"] == 0.01
    mixed, pairs = plans["mpo"]["data"], site.json("train_dpo", *HOW, "--dry-run")["data"]
    assert plans["sft"]["data"]["train_rows"] == mixed["train_rows"]
    assert mixed["train_rows"] + mixed["heldout_rows"] > pairs["train_rows"] + pairs["heldout_rows"] > 100
    assert mixed["ratings_usable"] > pairs["ratings_usable"]
    assert "score (mean, standard deviation)" in site.run("train_kto", *HOW, "--dry-run").stdout


@pytest.mark.parametrize(
    ("method", "value", "more", "told"),
    [
        ("kto", 1, (), "KTO learns from the difference: rate some bad answers down"),
        ("mpo", 1, (), "rate some bad answers down"),
        ("sft", 0, (), "0 accepted answers, and 10 are needed"),
        (
            "reward_model",
            None,
            ("--min-samples", "5000"),
            "112 pairs and 32 single scored answers make 144 rows, and 5,000 are needed",
        ),
    ],
)
def test_what_cannot_be_learned_from_exits_with_3_before_anything_is_loaded(
    site: Site, method: str, value: int | None, more: tuple[str, ...], told: str
):
    if method == "sft":
        site.change("DELETE FROM rl_feedback WHERE kind != 'rating'")
    if value is not None:
        site.change(f"UPDATE rl_feedback SET value = {value}, raw_value = {value}")
    result = site.run(f"train_{method}", *HOW, *more, expect=3)
    assert told in result.stderr
    assert "loading the base model" not in result.stderr


def test_the_run_of_another_method_is_not_resumed(site: Site):
    site.run("train_dpo", "--agent", "support-chat", "--min-samples", "5000", expect=3)
    assert "no stopped run to resume" in site.run("train_kto", *HOW, "--resume", expect=2).stderr
    result = site.run("train_kto", *HOW, "--resume", "1", expect=2)
    assert "run 1 trains with dpo: 'manage.py train_dpo --resume' goes on with it" in result.stderr


def test_the_own_options_of_a_method_reach_the_run(site: Site):
    own = ("--sft-weight", "0.25", "--beta", "0.3", "--dry-run")
    hyper_parameters = site.json("train_mpo", *HOW, *own)["config"]
    assert (hyper_parameters["sft_weight"], hyper_parameters["beta"]) == (0.25, 0.3)
    result = site.run("train_mpo", *HOW, "--sft-weight", "11", expect=2)
    assert "sft_weight must be a number from 0 to 10" in result.stderr


def test_imitation_before_imitation_is_refused(site: Site):
    result = site.run("train_sft", *HOW, "--sft-first", expect=2)
    assert "--sft-first imitates good answers first, and sft does nothing else: leave it out" in result.stderr
