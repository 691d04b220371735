import pytest

from rl.base.errors import NotEnoughData, UsageError
from rl.collect.feedback.write import compare, correct, retract
from rl.dataset_builder import DataOptions, DatasetPipeline, freeze, get_training_stats
from tests.conftest import make_trace
from tests.dataset_builder.ratings import all_rows, rate, rate_prompts, rated


@pytest.fixture
def answered(agent):
    for number in range(6):
        for value in (0, 1):
            rate(make_trace(agent, f"Question {number}?", f"Answer {value}.", reward=value), value)
    return agent


@pytest.mark.parametrize(
    ("method", "columns", "rows"),
    [
        ("dpo", {"prompt", "chosen", "rejected"}, 6),
        ("kto", {"prompt", "completion", "label"}, 12),
        ("grpo", {"prompt", "completions", "rewards"}, 6),
        ("reward", {"prompt", "completion", "reward"}, 12),
    ],
)
def test_each_method_gets_a_set_of_its_rows(answered, data_dir, method, columns, rows):
    frozen = getattr(DatasetPipeline("Support-Chat"), f"build_{method}_dataset")(min_samples=2, val_split=0)
    assert (frozen.agent, frozen.method, frozen.train_rows) == (answered, method, rows)
    assert all(columns <= set(row) for row in all_rows(frozen))


def test_it_takes_an_agent_and_builds_its_pair_type(answered, data_dir):
    answered.pair_type = "widget"
    with pytest.raises(NotEnoughData, match="no widget choice"):
        DatasetPipeline(answered).build_dpo_dataset()
    assert DatasetPipeline(answered).build_dpo_dataset(pair_type="preference", min_samples=1).train_rows


def test_it_plans(answered):
    assert DatasetPipeline(answered).plan().agent == "support-chat"


def test_unknown_agents_and_wrong_options_are_refused(answered):
    with pytest.raises(UsageError, match="unknown agent"):
        DatasetPipeline("nobody")
    with pytest.raises(UsageError, match="val_split must be"):
        DatasetPipeline(answered).build_kto_dataset(val_split=2)


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
