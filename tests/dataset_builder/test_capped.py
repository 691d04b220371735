"""No more rows of one rater than the agent's cap allows."""

from collections import Counter
from fractions import Fraction

import pytest

from rl.base.errors import NotEnoughData
from rl.collect.feedback import write
from rl.data_formatter.opinions import OVER_CAP, WEIGHED_DOWN
from rl.dataset_builder import DataOptions, capped, freeze, survey
from rl.models import Agent, Feedback, Trace, TrainingSet
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate, rated, read_rows

ONE = DataOptions(min_samples=1, val_split=0)
METHODS = ("dpo", "kto", "mpo", "reward_model")
TEAMS = ({"alice": 12, "bob": 8}, {"alice": 20, "bob": 2, "carol": 3}, {"alice": 9, "bob": 9, "carol": 1, "dave": 1})


@pytest.fixture
def agent(agent: Agent) -> Agent:
    agent.rater_cap = 0.5
    agent.save(update_fields=["rater_cap"])
    return agent


def rate_alone(agent: Agent, team: dict[str, int]) -> None:
    """Each rater has prompts of his own: pairs, and beside them single answers."""
    for rater, count in team.items():
        for number in range(count):
            for value in (1, 0):
                rated(agent, f"{rater}'s {number}?", f"Answer {number} is {'good' if value else 'bad'}.", value, rater)
            rated(agent, f"{rater} alone {number}?", f"Answer {number}.", number % 2, rater)


def shares(training_set: TrainingSet) -> dict[str, Fraction]:
    """Of the summed weight of the rows to train on, those of one rater alone."""
    names = dict(Feedback.objects.values_list("pk", "rater"))
    weights: Counter[str] = Counter()
    total = Fraction(0)
    for row in read_rows(training_set, "train"):
        raters, weight = {names[number] for number in row["feedback"]}, Fraction(str(row.get("weight", 1)))
        total += weight
        if len(raters) == 1:
            weights[raters.pop()] += weight
    return {rater: Fraction(weight) / total for rater, weight in weights.items()}


@pytest.mark.database
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("team", TEAMS, ids=str)
@pytest.mark.parametrize("cap", [0.05, 0.35, 0.5, 0.7])
def test_no_rater_has_a_larger_share_than_the_cap_or_than_all_alike(agent, data_dir, method, team, cap):
    rate_alone(agent, team)
    agent.rater_cap = cap
    found = shares(freeze(agent, ONE, method=method))
    assert set(found) == set(team)
    assert max(found.values()) <= max(cap, 1 / len(team)) + 1e-6
    if cap == 0.05:
        assert max(found.values()) - min(found.values()) < 1e-6


@pytest.mark.parametrize("method", METHODS)
def test_the_dry_run_says_what_the_freezing_writes(agent, data_dir, method):
    rate_alone(agent, TEAMS[0])
    planned, frozen = survey(agent, ONE, method=method), freeze(agent, ONE, method=method)
    assert (planned.train_rows, planned.ratings_usable, planned.prompts) == (
        frozen.train_rows,
        frozen.feedback_count,
        frozen.stats["prompts"],
    )
    assert dict(planned.skipped) == frozen.stats["skipped"]
    assert dict(planned.taken) == frozen.stats["taken"]


@pytest.mark.database
def test_what_is_left_out_is_counted_and_nothing_of_it_is_in_the_set(agent, data_dir):
    rate_alone(agent, {"alice": 12, "bob": 8})
    frozen = freeze(agent, ONE)
    assert (frozen.train_rows, frozen.stats["skipped"][OVER_CAP]) == (16, 4)
    assert (frozen.feedback_count, frozen.stats["prompts"]) == (32, 16)
    in_rows = {number for row in read_rows(frozen, "train") for number in row["feedback"]}
    assert len(in_rows) == 32
    assert set(frozen.members.values_list("trace_id", flat=True)) == set(
        Feedback.objects.filter(pk__in=in_rows).values_list("trace_id", flat=True)
    )
    assert not Feedback.objects.filter(training_set=None).exists()


def test_rows_with_weights_all_stay_and_are_weighed_down(agent, data_dir):
    rate_alone(agent, {"alice": 12, "bob": 8})
    frozen = freeze(agent, ONE, method="mpo")
    assert frozen.train_rows == 40
    assert Counter(row["weight"] for row in read_rows(frozen, "train")) == {0.666667: 24, 1.0: 16}
    assert (frozen.stats["taken"], OVER_CAP in frozen.stats["skipped"]) == ({WEIGHED_DOWN: 24}, False)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("raters", "cap"), [(("alice",), 0.05), (("alice", "bob"), 1.0)])
def test_a_single_rater_has_no_cap_and_neither_has_a_cap_of_one(agent, data_dir, method, raters, cap):
    for number, rater in enumerate(raters):
        rate_alone(agent, {rater: 12 - 8 * number})
    agent.rater_cap = cap
    frozen = freeze(agent, ONE, method=method)
    assert OVER_CAP not in frozen.stats["skipped"]
    assert WEIGHED_DOWN not in frozen.stats["taken"]


def test_rows_that_several_gave_are_nobodys(agent, data_dir):
    for number in range(9):
        for rater in ("alice", "bob"):
            rated(agent, f"Question {number}?", "Good.", 1, rater)
            rated(agent, f"Question {number}?", "Bad.", 0, rater)
    rate_alone(agent, {"alice": 5})
    assert freeze(agent, ONE).train_rows == 14


@pytest.mark.database
def test_the_same_data_give_the_same_bytes_whatever_their_numbers(agent, data_dir):
    def history(raters: tuple[str, ...]) -> str:
        for rater in raters:
            rate_alone(agent, {rater: 4 if rater == "bob" else 9})
        for rater in set(raters) - {"alice", "bob"}:
            Feedback.objects.filter(rater=rater).delete()
        frozen = freeze(agent, ONE)
        TrainingSet.objects.all().delete()
        Feedback.objects.all().delete()
        Trace.objects.all().delete()
        return frozen.content_hash

    assert history(("alice", "bob")) == history(("carol", "bob", "alice")) == history(("bob", "carol", "alice"))


def test_another_rater_leaves_the_choice_among_the_others_rows_as_it_is(agent, data_dir):
    def kept() -> set[str]:
        rows = read_rows(freeze(agent, ONE), "train")
        return {row["prompt_key"] for row in rows}

    rate_alone(agent, {"alice": 20, "bob": 4})
    few = kept()
    rate_alone(agent, {"carol": 4})
    assert few < kept()


def test_what_is_held_out_stays_and_what_rewards_say_is_nobodys(agent, data_dir):
    rate_alone(agent, {"alice": 30, "bob": 10})
    split = DataOptions(min_samples=1, val_split=0.3)
    agent.rater_cap = 1
    held_out = freeze(agent, split).heldout_rows
    agent.rater_cap = 0.5
    assert freeze(agent, split).heldout_rows == held_out
    for number in range(100):
        make_trace(agent, f"Rewarded {number}?", reward=number / 100)
    assert OVER_CAP in freeze(agent, ONE).stats["skipped"]
    assert OVER_CAP not in freeze(agent, ONE, method="kto").stats["skipped"]


def test_picks_and_edits_count_as_their_raters(agent, data_dir):
    for number in range(10):
        left, right = make_trace(agent, f"{number}?", "Left."), make_trace(agent, f"{number}?", "Right.")
        write.compare(left, right, choice="left", rater="alice" if number else "bob", source="test")
    write.correct(make_trace(agent, "Edited?", "Wrong."), text="Right.", rater="bob", source="test")
    assert freeze(agent, ONE).train_rows == 4


def test_the_shortage_says_that_others_should_rate(agent, data_dir):
    rate_alone(agent, {"alice": 30, "bob": 1})
    with pytest.raises(
        NotEnoughData, match="29 rows more would let one rater weigh more than 50%.*let others rate too"
    ):
        freeze(agent, DataOptions(val_split=0))


def test_labels_of_one_kind_are_a_shortage_where_the_cap_left_out_the_others(agent, data_dir):
    for number in range(40):
        rated(agent, f"{number}?", "Fine.", 1, "alice" if number else "bob")
    rate(make_trace(agent, "Bad?", "Bad."), 0, "alice")
    with pytest.raises(NotEnoughData, match="say the same of their answers"):
        freeze(agent, ONE, method="kto")


def test_rows_are_not_held_in_memory(agent, data_dir, monkeypatch):
    monkeypatch.setattr(capped, "_IN_MEMORY", 1)
    rate_alone(agent, {"alice": 12, "bob": 8})
    looks: list[int] = []
    monkeypatch.setattr(capped, "ROWS_A_LOOK", 1)
    freeze(agent, ONE, report=lambda *_: looks.append(1))
    assert len(looks) > 20
