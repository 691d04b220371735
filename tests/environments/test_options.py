import math
from typing import Any

import pytest

from rl.config.fields import wrong_type
from rl.environments.code_exec import CodeExecEnv
from rl.environments.settings import option_types
from tests.environments.crew.worlds import World


def test_the_options_of_all_classes_are_known_with_their_types():
    assert option_types(CodeExecEnv) == {
        "max_turns": int,
        "system_prompt": str | None,
        "success_reward": float,
        "failure_penalty": float,
        "timeout_penalty": float | None,
        "wrong_answer_ends": bool,
        "test_timeout": float,
        "reward_on": str,
    }
    assert option_types(World)["folder"] is str


@pytest.mark.parametrize(
    ("value", "hint", "right"),
    [
        (3, int, ""),
        (3.5, int, "a whole number"),
        (True, int, "a whole number"),
        (3, float, ""),
        (math.inf, float, "a number"),
        (True, float, "a number"),
        (False, bool, ""),
        (0, bool, "true or false"),
        ("x", str, ""),
        (None, str, "a text"),
        (None, str | None, ""),
        ([1], int | str | None, "a whole number or a text"),
        ([1], list[int], ""),
        (3, Any, ""),
    ],
)
def test_a_value_fits_a_type_or_it_is_said_what_would(value: Any, hint: Any, right: str):
    assert wrong_type(value, hint) == right
