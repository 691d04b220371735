from __future__ import annotations

from rl.environments.nearest import did_you_mean


def test_the_nearest_name_is_proposed_where_there_is_one():
    assert did_you_mean("max_turn", ["seed", "max_turns"]) == " (did you mean max_turns?)"
    assert did_you_mean(7, ["seed"]) == ""
    assert did_you_mean("x", []) == ""
