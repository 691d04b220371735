"""How far raters can be relied on, by what all the others say."""

import numpy as np
import pytest

from rl.base.records import Vote
from rl.judge.labels import Opinion
from rl.judge.raters import DOUBTED, cross_fit, cross_fit_by_trust, share_of, trust_raters, weigh_opinions
from tests.judge.test_head import of_one_form

pytestmark = pytest.mark.learn

RATERS = [f"rater {number}" for number in range(10)]


def answers(count: int = 200, seed: int = 0) -> np.ndarray:
    """Returns (N, 9 + WIDTH); the first number says what is good."""
    return of_one_form(np.random.default_rng(seed).normal(size=(count, 9)))


def opinions(features: np.ndarray, turned: set[str], noise: float = 0.1, seed: int = 1) -> list[Opinion]:
    """A thumb for every answer, and a pick between it and the next; ``turned``: raters who say the opposite."""
    rng, made = np.random.default_rng(seed), []
    for number in range(len(features) - 1):
        for is_pick in (False, True):
            rater = RATERS[rng.integers(len(RATERS))]
            good = features[number, 0] > (features[number + 1, 0] if is_pick else 0)
            good = bool(good != ((rng.random() < noise) != (rater in turned)))
            votes = (Vote(rater, True),)
            if is_pick:
                better, worse = (number, number + 1) if good else (number + 1, number)
                made.append(Opinion(better, worse, prompt=f"{number}", votes=votes))
            else:
                made.append(Opinion(number, value=float(good), prompt=f"{number}", votes=votes))
    return made


def test_raters_who_are_turned_round_lose_their_weight_and_the_others_keep_theirs():
    features, turned = answers(), {"rater 3", "rater 7"}
    trust = trust_raters(features, opinions(features, turned))
    assert {rater for rater, weight in trust.items() if weight < DOUBTED} == turned
    assert all(trust[rater] < -0.95 for rater in turned)
    assert all(trust[rater] > 0.95 for rater in set(RATERS) - turned)


def test_a_judge_that_can_tell_nothing_doubts_nobody_more_than_anybody_else():
    features = answers()
    about_nothing = [
        Opinion(opinion.answer, None, float(number % 2), prompt=opinion.prompt, votes=opinion.votes)
        for number, opinion in enumerate(opinions(features, set()))
    ]
    assert min(trust_raters(features * 0, about_nothing).values()) == pytest.approx(0.8, abs=0.02)


def test_of_two_raters_nobody_can_tell_who_is_turned_round():
    features = answers()
    two = [opinion for opinion in opinions(features, {"rater 1"}) if opinion.votes[0].rater in ("rater 1", "rater 2")]
    assert trust_raters(features, two) == {}
    assert weigh_opinions(two, {}) == two


def test_too_few_ratings_for_a_judge_doubt_nobody():
    features = answers(4)
    few = [Opinion(number, prompt="p", votes=(Vote(f"{number}", True),)) for number in range(4)]
    assert trust_raters(features, few) == {}


@pytest.mark.parametrize(
    ("votes", "left"),
    [
        ([], 1.0),
        ([("good", True)], 1.0),
        ([("coin", True)], 0.0),
        ([("turned", True)], -1.0),
        ([("mostly turned", True)], -0.6),
        ([("a little turned", True)], 0.0),
        ([("fair", True)], 0.6),
        ([("nobody knows", True)], 1.0),
        ([("turned", True), ("good", False)], 1.0),
        ([("good", True), ("turned", False)], 1.0),
        ([("good", True), ("coin", True)], 0.8 / 0.9756),
        ([("good", True), ("turned", True)], 0.0),
    ],
)
def test_a_row_keeps_what_its_votes_tell_once_raters_are_known(votes, left):
    trust = {"good": 1.0, "fair": 0.6, "coin": 0.0, "a little turned": -0.3, "mostly turned": -0.6, "turned": -1.0}
    assert share_of([Vote(*vote) for vote in votes], trust) == pytest.approx(left, abs=1e-4)


def test_what_somebody_says_who_is_turned_round_teaches_the_opposite():
    trust = {"good": 1.0, "turned": -1.0, "coin": 0.0}
    turned = [Opinion(1, 2, votes=(Vote("turned", True),)), Opinion(3, value=1.0, votes=(Vote("turned", True),))]
    kept = [Opinion(4, 5, votes=(Vote("good", True),)), Opinion(6, votes=(Vote("coin", True),))]
    assert [(left.answer, left.other, left.value, left.weight) for left in weigh_opinions([*turned, *kept], trust)] == [
        (2, 1, 1.0, 1.0),
        (3, None, 0.0, 1.0),
        (4, 5, 1.0, 1.0),
    ]


@pytest.mark.parametrize(
    ("votes", "left"),
    [
        ([("good", "chosen"), ("fair", "rejected")], (0.8 + 0.8 * 0.6) / 1.6),
        ([("good", "chosen"), ("coin", "rejected")], 0.5),
        ([("good", "chosen"), ("turned", "rejected")], 0.0),
        ([("good", ""), ("turned", "rejected")], 0.5882 / 0.9091),
    ],
)
def test_a_rating_of_one_answer_of_a_pair_tells_half_of_which_is_better(votes, left):
    trust = {"good": 1.0, "fair": 0.6, "coin": 0.0, "turned": -1.0}
    agreeing = [Vote(rater, True, about) for rater, about in votes]
    assert share_of(agreeing, trust) == pytest.approx(left, abs=1e-3)


def test_raters_are_known_by_their_ratings_also_where_two_of_them_made_one_pair():
    """Row by row nobody could say which of the two was wrong."""
    features, turned = answers(), {"rater 3", "rater 7"}
    rng, rows = np.random.default_rng(4), []
    for number in range(0, len(features) - 1, 2):
        votes, sides = [], []
        for answer in (number, number + 1):
            rater = RATERS[rng.integers(len(RATERS))]
            good = bool((features[answer, 0] > 0) != ((rng.random() < 0.1) != (rater in turned)))
            sides.append(good)
            votes.append((rater, good))
        if sides[0] != sides[1]:
            better, worse = (number, number + 1) if sides[0] else (number + 1, number)
            of = dict(zip((number, number + 1), votes, strict=True))
            both = (Vote(of[better][0], True, "chosen"), Vote(of[worse][0], True, "rejected"))
            rows.append(Opinion(better, worse, prompt=f"{number}", votes=both))
    trust = trust_raters(features, rows)
    assert {rater for rater, weight in trust.items() if weight < DOUBTED} == turned


def test_a_judge_that_relies_on_raters_is_nearer_to_the_truth():
    features, turned = answers(120), {"rater 1", "rater 4", "rater 5"}
    given = opinions(features, turned)
    right = []
    for judge in (cross_fit(features, given), cross_fit_by_trust(features, given)):
        pairs = [(a, a + 1) if features[a, 0] > features[a + 1, 0] else (a + 1, a) for a in range(118)]
        right.append(np.mean([judge.preference(features, *pair, f"{min(pair)}") > 0.5 for pair in pairs]))
    assert right[1] > right[0] + 0.03
