from __future__ import annotations

import json

import pytest

from tests.commands.site import Site

pytestmark = pytest.mark.process


TRAIN = ("train_mpo", "--agent", "support-chat", "--val-split", "0.25")


@pytest.mark.slow
def test_pairs_and_thumbs_that_stand_alone_lead_to_a_version_that_the_gate_has_judged(site: Site):
    document = site.json(*TRAIN)
    assert document["version"].startswith("v")
    models = document["evaluation"]["models"]
    assert models["base"]["accuracy"]["value"] == 0.5
    assert models["new"]["accuracy"]["value"] > 0.6
    assert site.query("SELECT state, method FROM rl_trainingrun") == [("succeeded", "mpo")]
    points = [json.loads(values) for (values,) in site.query('SELECT "values" FROM rl_metricpoint ORDER BY step')]
    assert {"loss", "kl", "margin", "chosen_reward", "rejected_reward"} <= set().union(*points)
    log = (site.data / "runs" / "1" / "log.txt").read_text()
    assert "single answers: a liked one counts" in log


def test_the_dry_run_counts_pairs_and_single_answers(site: Site):
    document = site.json(*TRAIN, "--dry-run")
    assert document["method"] == "mpo"
    pairs = site.json("train_dpo", *TRAIN[1:], "--dry-run")["data"]
    mixed = document["data"]
    assert mixed["train_rows"] + mixed["heldout_rows"] > pairs["train_rows"] + pairs["heldout_rows"] > 100
    assert mixed["ratings_usable"] > pairs["ratings_usable"]
    assert document["estimate"]["steps"] > 10


def test_liked_answers_without_a_pair_exit_with_3_before_anything_is_loaded(site: Site):
    site.change("UPDATE rl_feedback SET value = 1, raw_value = 1")
    result = site.run(*TRAIN, expect=3)
    assert "rate some bad answers down" in result.stderr
    assert "loading the base model" not in result.stderr


def test_its_own_options_reach_the_run(site: Site):
    hyper_parameters = site.json(*TRAIN, "--sft-weight", "0.25", "--beta", "0.3", "--dry-run")["config"]
    assert (hyper_parameters["sft_weight"], hyper_parameters["beta"]) == (0.25, 0.3)
    assert "sft_weight must be a number from 0 to 10" in site.run(*TRAIN, "--sft-weight", "11", expect=2).stderr
