"""Which raters are right, told by answers and by pairs that several of them voted on, and what their picks weigh then."""

from collections import Counter

import pytest

from rl.base.records import DirectPreference
from rl.collect.feedback.write import compare, rate
from rl.data_formatter.opinions import CONTRADICTION, OUTVOTED
from rl.data_formatter.preference import build_preference_pairs
from rl.dataset_builder.read.groups import Tally
from rl.dataset_builder.read.ratings import DatabaseSource
from rl.dataset_builder.read.reliability import learn_reliability, pseudonym, weigh_picks
from rl.models import Agent
from rl.raters.dawid_skene import LEAST_ITEMS, Reliability
from tests.conftest import make_trace

pytestmark = pytest.mark.django_db
HONEST, LIAR = ("ann", "ben", "cy"), "eve"


def compared(agent: Agent, number: int, **choices: str) -> None:
    left, right = (make_trace(agent, f"Question {number}?", text) for text in ("Good.", "Bad."))
    for rater, choice in choices.items():
        compare(left, right, choice=choice, rater=rater, source="test")


def many_pairs(agent: Agent) -> None:
    """Everybody honest takes the left one; eve the other."""
    for number in range(LEAST_ITEMS):
        compared(agent, number, **dict.fromkeys(HONEST, "left"), eve="right")


@pytest.mark.database
def test_picks_of_several_people_tell_who_says_the_opposite(agent: Agent):
    many_pairs(agent)
    learned = learn_reliability(agent)
    assert learned is not None
    assert learned.worse_than_chance() == {pseudonym(LIAR)}
    assert min(learned.accuracy[pseudonym(name)] for name in HONEST) > 0.9


def test_answers_and_pairs_count_together(agent: Agent):
    for number in range(LEAST_ITEMS // 2):
        compared(agent, number, **dict.fromkeys(HONEST, "left"))
        answer = make_trace(agent, f"Rated {number}?", "Fine.")
        for name in HONEST:
            rate(answer, scale="thumb", value=1.0, rater=name, source="test")
    learned = learn_reliability(agent)
    assert learned is not None
    assert learned.votes[pseudonym("ann")] == LEAST_ITEMS


def test_ties_and_pairs_of_two_raters_tell_nothing(agent: Agent):
    for number in range(LEAST_ITEMS):
        compared(agent, number, ann="left", ben="left", cy="tie")
    assert learn_reliability(agent) is None


def test_a_majority_of_liars_is_outvoted_by_who_is_known_to_be_right(agent: Agent):
    many_pairs(agent)
    for number in range(100, 100 + LEAST_ITEMS):
        compared(agent, number, ann="left", ben="left", dan="right", cy="left")
    compared(agent, 999, ann="left", eve="right", dan="right")
    direct = [pick for group in DatabaseSource(agent).groups(Tally()) for pick in group.direct]
    pairs = build_preference_pairs([], direct)
    assert {(pair.chosen, pair.rejected) for pair in pairs} == {("Good.", "Bad.")}
    assert len(pairs) == 2 * LEAST_ITEMS + 1
    plain = [pick for group in DatabaseSource(agent, weigh=False).groups(Tally()) for pick in group.direct]
    assert {pick.weight for pick in plain} == {1.0}
    assert ("Bad.", "Good.") in {(pair.chosen, pair.rejected) for pair in build_preference_pairs([], plain)}


def pick(rater: str, chosen: str, number: int) -> DirectPreference:
    rejected = "b" if chosen == "a" else "a"
    return DirectPreference(
        "key", (), chosen, rejected, number, chosen_trace=chosen, rejected_trace=rejected, rater=rater
    )


def test_the_weights_of_one_pair_add_up_to_its_votes_and_go_by_the_likely_truth():
    known = Reliability({"ann": 0.95, "eve": 0.1, "dan": 0.2}, {})
    weighed = list(weigh_picks(known, [pick("ann", "a", 1), pick("eve", "b", 2), pick("dan", "b", 3)]))
    share = 0.95 * 0.9 * 0.8 / (0.95 * 0.9 * 0.8 + 0.05 * 0.1 * 0.2)
    assert [of.weight for of in weighed] == pytest.approx([3 * share, *[3 * (1 - share) / 2] * 2], abs=1e-3)
    skipped: Counter[str] = Counter()
    (pair,) = build_preference_pairs([], weighed, skipped=skipped)
    assert (pair.chosen, skipped[OUTVOTED]) == ("a", 2)
    assert pair.metadata["confidence"] == pytest.approx(share, abs=1e-3)


def test_two_votes_against_each_other_stay_a_contradiction():
    skipped: Counter[str] = Counter()
    weighed = list(weigh_picks(None, [pick("ann", "a", 1), pick("eve", "b", 2)]))
    assert build_preference_pairs([], weighed, skipped=skipped) == []
    assert skipped[CONTRADICTION] == 2
