from collections import Counter

import pytest

from rl.serving.experiments.sample_ratio import pick, shares

RAMP = [{"hours": 0, "share": 0.1}, {"hours": 24, "share": 0.5}]
USERS = [f"user {number}" for number in range(4000)]


def test_without_a_ramp_the_weights_decide():
    assert shares({1: 1.0, 2: 3.0}, control=1, ramp=[], hours=0) == {1: 0.25, 2: 0.75}


@pytest.mark.parametrize(("hours", "challenger"), [(0, 0.1), (23.9, 0.1), (24, 0.5), (1000, 0.5)])
def test_a_ramp_says_what_the_challengers_get(hours: float, challenger: float):
    assert shares({1: 1.0, 2: 1.0}, control=1, ramp=RAMP, hours=hours) == {1: 1 - challenger, 2: challenger}


def test_two_challengers_divide_the_step_by_their_weights():
    found = shares({1: 5.0, 2: 1.0, 3: 3.0}, control=1, ramp=RAMP, hours=0)
    assert found == pytest.approx({1: 0.9, 2: 0.025, 3: 0.075})


def test_a_control_alone_keeps_everything_and_no_weights_give_no_shares():
    assert shares({1: 2.0}, control=1, ramp=RAMP, hours=0) == {1: 1.0}
    assert shares({1: 0.0, 2: 0.0}, control=1, ramp=[], hours=0) == {}


def test_users_keep_their_arm_and_arms_get_their_share():
    of_arms = {1: 0.5, 2: 0.3, 3: 0.2}
    first = {user: pick(7, user, of_arms) for user in USERS}
    assert first == {user: pick(7, user, of_arms) for user in USERS}
    counts = Counter(first.values())
    assert {arm: counts[arm] / len(USERS) for arm in of_arms} == pytest.approx(of_arms, abs=0.03)


def test_a_growing_share_moves_users_to_that_arm_only():
    before = {user: pick(7, user, {1: 0.9, 2: 0.1}) for user in USERS}
    after = {user: pick(7, user, {1: 0.5, 2: 0.5}) for user in USERS}
    moved = {(before[user], after[user]) for user in USERS if before[user] != after[user]}
    assert moved == {(1, 2)}


def test_another_experiment_divides_the_users_anew():
    one, other = ([pick(number, user, {1: 0.5, 2: 0.5}) for user in USERS] for number in (1, 2))
    equal = sum(a == b for a, b in zip(one, other, strict=True))
    assert equal / len(USERS) == pytest.approx(0.5, abs=0.05)


def test_an_arm_without_a_share_is_never_picked():
    assert {pick(7, user, {1: 1.0, 2: 0.0}) for user in USERS} == {1}
    with pytest.raises(ValueError, match="empty"):
        pick(7, "somebody", {1: 0.0})
