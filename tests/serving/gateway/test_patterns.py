"""How many ways lead through a pattern."""

from __future__ import annotations

from contextlib import suppress

import pytest

from rl.serving.gateway.patterns import Budget, NotUnderstood, TooLoose, count_ways


@pytest.mark.parametrize(
    "pattern",
    [
        r"^\d{4}-\d{2}-\d{2}$",
        r"^[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})*$",
        "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
        r"^https?://[^\s/$.?#].[^\s]*$",
        r"^\+?[1-9]\d{1,14}$",
        "^.{1,500}$",
        "^(?:ab|cd)+$",
        r"^\x41\u0042[\]\-\\]$",
        "^$",
    ],
)
def test_a_pattern_each_of_whose_characters_has_one_place_leads_one_way(pattern: str):
    assert count_ways(pattern, Budget()) == 1


@pytest.mark.parametrize(
    ("pattern", "ways"),
    [
        ("^(a|a)b$", 2),
        ("^[a-z]*[a-z]*$", 9),  # of eight letters: the second part begins at one of them, or not at all
        ("^#?([a-f0-9]{6}|[a-f0-9]{3})$", 2),
        ("^(AL|AK|AZ|CA)$", 3),
        ("^[a-z]?[a-z]?[a-z]?[a-z]?$", 6),
        ("a", 9),
    ],
)
def test_ways_are_counted_through_the_characters_of_a_token(pattern: str, ways: int):
    assert count_ways(pattern, Budget()) == ways


@pytest.mark.parametrize(
    "pattern",
    [
        "^" + "a?" * 200 + "$",
        "^" + "[a-z]?" * 50 + "$",
        "^" + "[a-z]*" * 20 + "$",
        "^" + "[a-z]{0,10}" * 20 + "$",
        "^([a-z]{0,20}){0,20}$",
        "^(([a-z]{0,9}){0,9}){0,9}$",
        "^(" + "|".join(["[a-z]"] * 8) + ")*$",
        "^((a|a|a|a){0,60})$",
        "^(.|.|.|.|.|.|.|.)*$",
        "^" + "(a|b)*" * 60 + "$",
    ],
)
def test_a_pattern_that_leaves_much_open_is_too_loose(pattern: str):
    with pytest.raises(TooLoose):
        count_ways(pattern, Budget())


@pytest.mark.parametrize(
    "pattern",
    [
        "^a{1,1000000}$",
        "^(a{400}){400}$",
        "^((((){400}){400}){400}){400}$",
        "a" * 6000,
        "^" + "(" * 200 + ")" * 200 + "$",
    ],
)
def test_a_pattern_that_is_large_is_refused_before_it_is_unfolded(pattern: str):
    with pytest.raises(TooLoose):
        count_ways(pattern, Budget())


@pytest.mark.parametrize(
    "pattern", ["^(?=a)b$", r"^(?!\.)x$", r"(a)\1", r"\bword", r"\p{L}", "^[a", "(a", "a)", "*", "a{z}", "a$b", "\\"]
)
def test_what_no_grammar_is_made_of_is_not_understood(pattern: str):
    with pytest.raises(NotUnderstood):
        count_ways(pattern, Budget())


def test_the_patterns_of_a_request_share_the_work():
    budget = Budget()
    count_ways("^[a-z0-9]{2,500}$", budget)
    with pytest.raises(TooLoose):
        [count_ways("^[a-z0-9]{2,500}$", budget) for _ in range(50)]


def test_every_pattern_ends_in_ways_or_in_an_error():
    """Cut anywhere, doubled, and with each character in the place of another."""
    whole = r"^(?:[a-z\d]{1,3}|x+?)*[^\]a-]\.(ab|c?){2,}$"
    cases = [whole[:end] for end in range(len(whole))] + [whole[start:] + whole for start in range(len(whole))]
    cases += [whole[:at] + mark + whole[at + 1 :] for at in range(len(whole)) for mark in "()[]{}*+?|\\^$-"]
    understood = 0
    for pattern in cases:
        with suppress(NotUnderstood, TooLoose):
            understood += count_ways(pattern, Budget()) > 0
    assert understood > 50
