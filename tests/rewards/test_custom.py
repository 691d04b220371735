from __future__ import annotations

import pytest

from rl.base.errors import UsageError
from rl.rewards import RewardEngine
from rl.rewards.custom import load_rewards
from tests.rewards.records import record

HERE = "tests.rewards.records"


def test_a_reward_of_ones_own_is_loaded_under_the_name_it_is_given():
    engine = RewardEngine(rewards=load_rewards({"brief": f"{HERE}.Length"}))
    (result,) = (each for each in engine.compute_all(record("abc")) if each.name == "brief")
    assert (result.value, result.weight) == (0.25, 2.0)


@pytest.mark.parametrize(
    ("name", "path", "problem"),
    [
        ("brief", "no.such.module.Class", "brief=no.such.module.Class cannot be loaded: ModuleNotFoundError"),
        ("brief", f"{HERE}.Missing", "cannot be loaded: AttributeError"),
        ("brief", "Length", "cannot be loaded: ValueError"),
        ("brief", f"{HERE}.record", "is not a subclass of rl.rewards.BaseReward"),
        ("brief", f"{HERE}.NeedsArguments", "cannot be made without arguments"),
        ("brief", "rl.rewards.BaseReward", "cannot be made without arguments: Can't instantiate abstract class"),
        ("../x", f"{HERE}.Length", "reward name"),
    ],
)
def test_one_that_is_wrong_is_named(name, path, problem):
    with pytest.raises(UsageError, match=problem):
        load_rewards({name: path})
