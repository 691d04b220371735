import pytest

from rl.from_systems.openai_tuning.graders import formula
from rl.from_systems.openai_tuning.graders.failures import GradingFailed

REWARDS = {"a": 0.5, "b": 2.0, "zero": 0.0}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("0.5 * a + 0.25 * b", 0.75),
        ("2 * b ^ 2", 8.0),
        ("2 ^ 3 ^ 2", 512.0),
        ("-b + +1", -1.0),
        ("(a + b) / 2", 1.25),
        ("min(a, b, 0.1) + max(a)", 0.6),
        ("abs(-b) + floor(a) + ceil(a)", 3.0),
        ("exp(zero) + sqrt(4) + log(1)", 3.0),
        (" a ", 0.5),
    ],
)
def test_it_is_computed(text: str, result: float):
    formula.check(text, REWARDS)
    assert formula.compute(text, REWARDS) == pytest.approx(result)


@pytest.mark.parametrize(
    "text", ["a / zero", "sqrt(-a)", "log(zero)", "exp(1000)", "(-a) ^ 0.5", "1e308 * 10", "1" * 999]
)
def test_what_has_no_result_is_flagged(text: str):
    formula.check(text, REWARDS)
    with pytest.raises(GradingFailed) as failed:
        formula.compute(text, REWARDS)
    assert failed.value.flag == "formula_parse_error"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a +", "cannot be read"),
        ("c + a", "unknown grader 'c'; known: a, b, zero"),
        ("round(a)", "unknown function 'round'; known: min, max"),
        ("sqrt(a, b)", "sqrt takes one number"),
        ("min()", "min takes at least one number"),
        ("a.real", r"a formula has \+ - \* / \^, numbers, graders and min"),
        ("a if b else 1", "a formula has"),
        ("a % b", "a formula has"),
        ("'text'", "a formula has"),
        ("min(*a)", "a formula has"),
        ("min(a, key=b)", "a formula has"),
        ("True", "a formula has"),
        ("a" * 2001, "at most 2,000 characters, not 2,001"),
        ("(" * 900 + "a" + ")" * 900, "cannot be read"),
        ("-" * 1900 + "a", "nested too deeply|cannot be read"),
    ],
)
def test_what_is_not_arithmetic_of_graders_is_refused(text: str, reason: str):
    with pytest.raises(ValueError, match=reason):
        formula.check(text, REWARDS)
