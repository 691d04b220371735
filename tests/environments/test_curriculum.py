from __future__ import annotations

from rl.environments.curriculum import census, hardest_first


def tasks(names: str) -> list[dict[str, str]]:
    return [{"task_id": name} for name in names]


def ids(found: list) -> str:
    return "".join(task["task_id"] for task in found)


def test_the_hardest_that_are_sometimes_solved_come_first():
    assert ids(hardest_first(tasks("abc"), {"a": 0.9, "b": 0.1, "c": 0.5})) == "bca"


def test_then_those_never_tried_then_those_never_solved_and_last_those_always_solved():
    rates = {"a": 1.0, "b": 0.0, "d": 0.25}
    assert ids(hardest_first(tasks("abcd"), rates)) == "dcba"
    assert dict(census(tasks("abcd"), rates)) == {
        "sometimes solved": 1,
        "never tried": 1,
        "never solved": 1,
        "always solved": 1,
    }


def test_equals_stay_in_the_order_of_the_file():
    assert ids(hardest_first(tasks("zyx"), {})) == "zyx"
    assert ids(hardest_first(tasks("dcba"), {"d": 0.5, "c": 0.5, "b": 0.0, "a": 0.0})) == "dcba"
