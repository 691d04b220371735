from __future__ import annotations

import json

import pytest

from tests.commands.site import Site

pytestmark = pytest.mark.process


TRAIN = ("train_kto", "--agent", "support-chat", "--val-split", "0.25")


@pytest.mark.slow
def test_single_ratings_lead_to_a_version_that_the_gate_has_judged(site: Site):
    document = site.json(*TRAIN)
    assert document["version"].startswith("v")
    models = document["evaluation"]["models"]
    assert models["base"]["accuracy"]["value"] == 0.5
    assert models["new"]["accuracy"]["value"] > 0.6
    assert site.query("SELECT state, method FROM rl_trainingrun") == [("succeeded", "kto")]
    [(points,)] = site.query('SELECT "values" FROM rl_metricpoint ORDER BY step DESC LIMIT 1')
    assert {"loss", "kl"} <= json.loads(points).keys()
    assert "a bad one" in (site.data / "runs" / "1" / "log.txt").read_text()


def test_the_dry_run_counts_labelled_rows(site: Site):
    document = site.json(*TRAIN, "--dry-run")
    assert document["method"] == "kto"
    assert document["data"]["train_rows"] > 100
    assert 0.2 < document["data"]["score_mean"] < 0.8
    assert document["estimate"]["steps"] > 10
    assert "score (mean, standard deviation)" in site.run(*TRAIN, "--dry-run").stdout


def test_answers_that_are_all_good_exit_with_3_before_anything_is_loaded(site: Site):
    site.change("UPDATE rl_feedback SET value = 1, raw_value = 1")
    result = site.run(*TRAIN, expect=3)
    assert "KTO learns from the difference: rate some bad answers down" in result.stderr
    assert "loading the base model" not in result.stderr


def test_the_run_of_another_method_is_not_resumed(site: Site):
    site.run("train_dpo", "--agent", "support-chat", "--min-samples", "5000", expect=3)
    assert "no stopped run to resume" in site.run(*TRAIN, "--resume", expect=2).stderr
    result = site.run(*TRAIN, "--resume", "1", expect=2)
    assert "run 1 trains with dpo: 'manage.py train_dpo --resume' goes on with it" in result.stderr
