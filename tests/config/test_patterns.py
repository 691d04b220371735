"""How many ways lead through a pattern at most."""

from contextlib import suppress

import pytest

from rl.config.patterns import NotPassed, count_ways


@pytest.mark.parametrize(
    ("pattern", "ways"),
    [
        (r"^\d{4}-\d{2}-\d{2}$", 1),
        ("^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", 1),
        (r"^[\]\-\\]\$$", 1),
        ("^$", 1),
        ("^(AL|AK|AZ|CA)$", 4),
        ("^#?([a-f0-9]{6}|[a-f0-9]{3})$", 9 * 2),
        ("^.{1,500}$", 9),
        (r"^\+?[1-9]\d{1,14}$", 45),
        ("^[a-z]*[a-z]*$", 45),
        (r"^[^@\s]+@[^@\s]+\.[^@\s]+$", 165),
        (r"^https?://[^\s/$.?#].[^\s]*$", 45),
        ("a", 45),
        (r"a\$", 45),
    ],
)
def test_ways_are_counted_through_the_characters_of_a_token(pattern: str, ways: int):
    assert count_ways(pattern) == ways


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
        "^" + "(a|a)" * 20 + "$",
        "^(a|a){20}$",
    ],
)
def test_a_pattern_that_leaves_much_open_does_not_pass(pattern: str):
    with pytest.raises(NotPassed):
        count_ways(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "^a{1,1000000}$",
        "^a{1,9999}$",
        "^(a{400}){400}$",
        "^((((){400}){400}){400}){400}$",
        "a" * 6000,
        "^" + "(" * 249 + ")" * 249 + "*$",
    ],
)
def test_a_pattern_that_is_large_does_not_pass(pattern: str):
    with pytest.raises(NotPassed):
        count_ways(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["^(?=a)b$", r"^(?!\.)x$", r"(a)\1", r"\bword", r"\p{L}", "^[a", "(a", "a)", "*", "a{z}", "a$b", "\\", "^a**$"],
)
def test_what_no_grammar_is_made_of_does_not_pass(pattern: str):
    with pytest.raises(NotPassed):
        count_ways(pattern)


def test_every_pattern_ends_in_ways_or_does_not_pass():
    """Cut anywhere, doubled, and with each character in the place of another."""
    whole = r"^(?:[a-z\d]{1,3}|x+?)[^\]a-]\.(ab|c?)$"
    cases = [whole[:end] for end in range(len(whole))] + [whole[start:] + whole for start in range(len(whole))]
    cases += [whole[:at] + mark + whole[at + 1 :] for at in range(len(whole)) for mark in "()[]{}*+?|\\^$-"]
    passed = 0
    for pattern in cases:
        with suppress(NotPassed):
            passed += count_ways(pattern) > 0
    assert passed > 50
