from __future__ import annotations

import pytest

from rl.base.errors import UsageError
from rl.collect.feedback.write import compare, correct, retract
from rl.dataset_builder import DataOptions, freeze, get_training_stats
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate, rate_prompts, rated


def test_the_figures_say_what_there_is_to_learn_from(agent, trace, data_dir):
    rate_prompts(agent, 3)
    freeze(agent, DataOptions(min_samples=1, val_split=0))
    rate(trace, 3, "bob", "stars")
    correct(trace, text="On Friday.", rater="bob", source="test")
    compare(trace, make_trace(agent, response="No."), choice="left", rater="bob", source="test")
    withdrawn = rated(agent, "Oops?", "Yes.", 0)
    retract(withdrawn, rater="alice", source="test")
    stats = get_training_stats("Support-Chat")
    expected = {
        "agent": "support-chat",
        "traces": 9,
        "prompts": 5,
        "ratings": 7,
        "up": 3,
        "down": 3,
        "neutral": 1,
        "corrections": 1,
        "comparisons": 1,
        "outcomes": 0,
        "waiting": 3,
        "rated_traces": 7,
        "raters": 2,
        "training_sets": 1,
        "train_rows": 3,
        "heldout_rows": 0,
        "runs": 0,
        "last_run": None,
        "newest_version": None,
    }
    assert {name: stats[name] for name in expected} == expected
    assert stats["last_rated_at"] is not None


def test_an_unknown_agent_is_refused_with_those_there_are(agent):
    with pytest.raises(UsageError, match="unknown agent 'nobody'; known: support-chat"):
        get_training_stats("nobody")
