from __future__ import annotations

import math
from typing import Any

import pytest

from rl.base.errors import UsageError
from rl.base.measurements import Distance
from rl.config.guard_limits import GUARD_LIMITS, check_guard_limits, guard_limits
from rl.evaluation.guards.answer_errors import DEGENERATE
from rl.evaluation.guards.rails import Answers, Rail, broken_reason, rails


def moved(kl: float = 0.1, likelihood: float = -0.9) -> Distance:
    return Distance(kl, likelihood, base_likelihood=-0.7)


def answers(
    lengths: int = 40, errors: dict[str, int] | None = None, reward: float | None = None, n: int = 16
) -> Answers:
    """``errors``: how many answers have each kind."""
    kinds: list[list[str]] = [[] for _ in range(n)]
    for kind, count in (errors or {}).items():
        for of_answer in kinds[:count]:
            of_answer.append(kind)
    return Answers(["x" * lengths] * n, kinds, [reward] * n)


def all_rails(new: Answers, current: Answers | None = None, **given: Any) -> dict[str, Rail]:
    options = {"preferred": [], "distance": moved(), "limits": GUARD_LIMITS, "has_format": True, **given}
    return {rail.name: rail for rail in rails(new, current or answers(), **options)}


def test_every_limit_has_its_rail_and_equal_versions_keep_to_all():
    kept = all_rails(answers(reward=0.5), answers(reward=0.5))
    assert kept.keys() == GUARD_LIMITS.keys()
    assert not any(rail.broken for rail in kept.values())
    assert broken_reason(list(kept.values())) == ""


@pytest.mark.parametrize(("length", "broken"), [(19, True), (20, False), (80, False), (81, True)])
def test_answers_may_not_get_far_longer_or_shorter(length, broken):
    assert all_rails(answers(length))["length_ratio"].broken is broken


def test_a_length_that_people_prefer_is_no_drift():
    assert not all_rails(answers(300), preferred=[280, 320])["length_ratio"].broken
    assert all_rails(answers(1000), preferred=[280, 320])["length_ratio"].broken
    assert not all_rails(answers(0), answers(0))["length_ratio"].broken


@pytest.mark.parametrize(
    ("rail", "kind"),
    [
        ("empty_rate", "empty"),
        ("refusal_rate", "refusal"),
        ("parse_error_rate", "parse"),
        ("parse_error_rate", "format"),
        ("parse_error_rate", "tool"),
    ],
)
def test_a_rate_breaks_with_two_answers_more_than_the_version_in_use_and_never_with_one(rail, kind):
    assert not all_rails(answers(errors={kind: 1}))[rail].broken
    assert all_rails(answers(errors={kind: 2}))[rail].broken
    assert not all_rails(answers(errors={kind: 2}), answers(errors={kind: 2}))[rail].broken


def test_where_no_format_is_asked_there_is_nothing_to_tell():
    rail = all_rails(answers(errors={"parse": 16}), has_format=False)["parse_error_rate"]
    assert (rail.value, rail.broken, rail.text) == (None, False, "no format is asked of its answers")


def test_a_loss_of_reward_breaks_beyond_the_limit_and_beyond_chance():
    assert all_rails(answers(reward=0.40), answers(reward=0.5))["reward_loss"].broken
    assert not all_rails(answers(reward=0.46), answers(reward=0.5))["reward_loss"].broken
    mixed = Answers(["x"] * 4, [[]] * 4, [0.0, 1.0, 0.0, 0.9])
    other = Answers(["x"] * 4, [[]] * 4, [1.0, 0.0, 1.0, 0.5])
    assert not all_rails(mixed, other)["reward_loss"].broken
    assert all_rails(answers(), answers())["reward_loss"].text == "no reward applies to its answers"


@pytest.mark.parametrize("kind", DEGENERATE)
def test_degenerate_answers_break_whatever_the_version_in_use_says(kind):
    assert not all_rails(answers(errors={kind: 3}))["degenerate_rate"].broken
    rail = all_rails(answers(errors={kind: 4}), answers(errors={kind: 16}))["degenerate_rate"]
    assert rail.broken
    assert rail.text == f"degenerate: 4 of 16 answers ({kind} 4), 16 of the version in use"


def test_one_degenerate_answer_breaks_nothing_however_few_were_asked():
    assert not all_rails(answers(errors={"echo": 1}, n=2), answers(n=2))["degenerate_rate"].broken
    assert all_rails(answers(errors={"echo": 2}, n=2), answers(n=2))["degenerate_rate"].broken


@pytest.mark.parametrize(("kl", "broken"), [(0.009, False), (0.53, False), (1.06, True), (math.nan, True)])
def test_a_version_may_not_move_far_from_its_base(kl, broken):
    rail = all_rails(answers(), distance=moved(kl=kl))["kl_to_base"]
    assert rail.broken is broken
    assert rail.value is None or math.isfinite(rail.value)


@pytest.mark.parametrize(("likelihood", "broken"), [(-0.5, False), (-1.04, False), (-1.66, True), (-math.inf, True)])
def test_a_version_may_not_say_what_its_base_finds_very_unlikely(likelihood, broken):
    rail = all_rails(answers(), distance=moved(likelihood=likelihood))["base_likelihood"]
    assert rail.broken is broken
    assert rail.value is None or rail.value == pytest.approx(-0.7 - likelihood)


def test_a_distance_that_was_not_measured_breaks_nothing():
    found = all_rails(answers(), distance=None)
    for name in ("kl_to_base", "base_likelihood"):
        assert (found[name].value, found[name].broken, found[name].text) == (None, False, "not measured")


def test_the_reason_names_figure_limit_and_the_way_out():
    reason = broken_reason(list(all_rails(answers(errors={"refusal": 4}), distance=moved(3.0)).values()))
    assert reason.startswith(
        "2 guard rails are broken: refusal_rate (refusals: 4 of 16 answers, 0 of the version in use"
    )
    assert "kl_to_base (3.00 nats a token from the base model, limit 1)" in reason
    assert "raise the limit in the agent's guard limits, or set it to null" in reason


def test_a_limit_of_null_switches_a_rail_off_and_another_replaces_the_default():
    limits = guard_limits({"kl_to_base": None, "empty_rate": 0.5})
    assert "kl_to_base" not in all_rails(answers(), distance=moved(99.0), limits=limits)
    assert not all_rails(answers(errors={"empty": 4}), limits=limits)["empty_rate"].broken


@pytest.mark.parametrize("value", [[], {"speed": 1}, {"empty_rate": 0}, {"empty_rate": True}, {"empty_rate": "1"}])
def test_limits_that_are_none_are_refused(value):
    with pytest.raises(UsageError):
        check_guard_limits(value)
