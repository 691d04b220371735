import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.models import Agent
from rl.rewards import FormatComplianceReward
from rl.rewards.blocks import LONGEST
from rl.rewards.format_compliance import FORMATS
from tests.rewards.records import record

CALL = '<tool_call>{"name": "search", "arguments": {"query": "x"}}</tool_call>'


def value(response: str, asked) -> float | None:
    return FormatComplianceReward().compute(record(response, details={"format": asked})).value


@pytest.mark.parametrize(
    ("asked", "response", "expected"),
    [
        ("json", ' {"a": 1} ', 1.0),
        ("json", '```json\n{"a": 1}\n```\n', 0.8),
        ("json", 'Here:\n```\n{"a": 1}\n```', 0.5),
        ("json", "```json\n{'a'}\n```", 0.0),
        ("json", "", 0.0),
        ("json", "[" * 100_000, 0.0),
        ({"type": "json", "keys": ["a", "b"]}, '{"a": 1}', 0.5),
        ({"type": "json", "keys": ["a"]}, "[1]", 0.0),
        ({"type": "json", "keys": "a"}, '{"b": 1}', 1.0),
        ("code", "```python\nprint(1)\n```", 1.0),
        ("code", "12345678\n```python\nprint(1)\n```", 0.75),
        ("code", "print(1)", 0.0),
        ({"type": "code", "language": "sql"}, "```python\nprint(1)\n```", 0.0),
        ("markdown", "# Title\n\n- one\n- two\n", 1.0),
        ("markdown", "| a | b |\n|---|---|\n| 1 | 2 |", 1.0),
        ("markdown", "just words", 2 / 3),
        ("markdown", "# Title\n<div>hi</div>", 2 / 3),
        ("markdown", "```html\n<div>hi</div>\n```", 1.0),
        ("markdown", "```html\n<div>hi</div>", 2 / 3),
        ("markdown", "1 < 2 and a<b", 2 / 3),
        ("markdown", "  ", 0.0),
        ("plain", "No tags, 1 < 2 and a <3.", 1.0),
        ("plain", "<b>two</b> of <i>both</i>", 0.6),
        ("plain", "<br/>", 0.9),
        ("plain", "<a>" * 4, 0.6),
        ("plain", "<a></a>" * 40, 0.5),
        ("plain", "```html\n<div><b>hi</b></div>\n```\nAs shown.", 1.0),
        ("plain", " ", 0.0),
        ("tool_call", f"I look it up. {CALL}", 1.0),
        ("tool_call", f"{CALL}<tool_call>{{}}</tool_call>", 0.5),
        ("tool_call", '<tool_call>{"name": "search", "arguments": {}}', 0.0),
        ("tool_call", '<tool_call>{"name": "search", "arguments": "x"}</tool_call>', 0.0),
        ("tool_call", "search(x)", 0.0),
    ],
)
def test_each_format_has_its_measure(asked, response, expected):
    assert value(response, asked) == pytest.approx(expected)


@pytest.mark.parametrize("asked", ["", None, {}, "poem", {"type": ["json"]}, 7])
def test_where_no_known_format_was_asked_for_it_does_not_apply(asked):
    assert value("{}", asked) is None


def test_the_agent_says_what_is_expected_unless_the_answer_was_asked_for_another():
    reward = FormatComplianceReward("json")
    assert reward.compute(record("{}")).value == 1.0
    assert reward.compute(record("{}", details={"format": "code"})).value == 0.0


def test_a_text_that_is_too_long_is_not_judged():
    assert value("x" * (LONGEST + 1), "markdown") is None


def test_an_agent_can_be_given_each_format():
    assert list(FORMATS) == Agent.AnswerFormat.values


@given(st.sampled_from(list(FORMATS)), st.text(alphabet='`{}[]<>"a:|# \n1', max_size=80))
def test_any_answer_gets_a_value_from_0_to_1(asked, response):
    found = value(response, asked)
    assert found is not None
    assert 0 <= found <= 1
