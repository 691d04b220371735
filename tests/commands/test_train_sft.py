from __future__ import annotations

import pytest

from tests.commands.site import Site

pytestmark = pytest.mark.process


TRAIN = ("train_sft", "--agent", "support-chat", "--val-split", "0.25")


def test_the_dry_run_counts_what_mpo_learns_from(site: Site):
    document = site.json(*TRAIN, "--dry-run")
    assert document["method"] == "sft"
    assert document["data"]["train_rows"] == site.json("train_mpo", *TRAIN[1:], "--dry-run")["data"]["train_rows"] > 100
    assert document["estimate"]["steps"] > 10


def test_disliked_answers_alone_exit_with_3_before_anything_is_loaded(site: Site):
    site.change("DELETE FROM rl_feedback WHERE kind != 'rating'")
    site.change("UPDATE rl_feedback SET value = 0, raw_value = 0")
    result = site.run(*TRAIN, expect=3)
    assert "0 accepted answers, and 10 are needed" in result.stderr
    assert "loading the base model" not in result.stderr


def test_imitation_before_imitation_is_refused(site: Site):
    result = site.run(*TRAIN, "--sft-first", expect=2)
    assert "--sft-first imitates good answers first, and sft does nothing else: leave it out" in result.stderr
