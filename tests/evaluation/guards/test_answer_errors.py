import pytest

from rl.base.records import GeneratedAnswer
from rl.evaluation.guards.answer_errors import KINDS, REFUSALS, asks_for_format, is_refusal, kinds_of

ROW = {"prompt": [{"role": "user", "content": "?"}], "prompt_key": "q", "details": {}}
CALL = '<tool_call>{"name": "look", "arguments": {}}</tool_call>'


def kinds(text: str, asked: str = "", details: dict | None = None, tokens: int = 3) -> list[str]:
    return kinds_of(GeneratedAnswer(text, 5, tokens), 8, {**ROW, "details": details or {}}, asked)


@pytest.mark.parametrize(
    ("text", "asked", "expected"),
    [
        ("Fine.", "", []),
        (" \n", "json", ["empty"]),
        ("I cannot do that.", "", ["refusal"]),
        ('{"a": 1}', "json", []),
        ("not at all", "json", ["parse"]),
        ("no code", "code", ["parse"]),
        (CALL, "tool_call", []),
        (CALL + "<tool_call>{", "tool_call", ["tool"]),
        ("# Heading", "markdown", []),
    ],
)
def test_each_kind_has_its_sign(text, asked, expected):
    assert kinds(text, asked) == expected
    assert set(expected) <= KINDS.keys()


def test_an_answer_that_did_not_end_is_too_long():
    assert kinds("on and on", tokens=8) == ["too_long"]
    assert kinds("", tokens=8) == ["too_long", "empty"]


def test_the_prompt_may_ask_for_a_format_of_its_own():
    details = {"format": {"type": "json", "keys": ["a", "b", "c"]}}
    assert kinds('{"a": 1}', details=details) == ["format"]
    assert asks_for_format({"details": details}, "")
    assert not asks_for_format(ROW, "")


OFFERED = {**ROW, "tools": [{"type": "function", "function": {"name": "look"}}]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [(CALL, []), (CALL[:-14], ["tool"]), ("Let me see. " + CALL.replace('"name"', "name"), ["tool"]), ("Shall I?", [])],
)
def test_a_call_of_a_tool_that_is_offered_must_be_readable(text: str, expected: list[str]):
    assert kinds_of(GeneratedAnswer(text, 1, 1), 9, OFFERED, "") == expected
    assert asks_for_format(OFFERED, "")


def test_where_people_prefer_a_call_an_answer_without_one_is_told():
    chosen = [{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "look"}}]}]
    row = {**OFFERED, "chosen": chosen}
    assert kinds_of(GeneratedAnswer("Shall I look it up?", 1, 1), 9, row, "") == ["no_call"]
    assert kinds_of(GeneratedAnswer(CALL, 1, 1), 9, row, "") == []


@pytest.mark.parametrize(
    "answer",
    [
        "I'm sorry, but I can't help with that.",
        "I’m sorry. I cannot do this.",
        "Sorry, I won't.",
        "  **Unfortunately, I am unable to** see your order.",
        "As an AI language model, I have no orders.",
        "I apologize, but I'm not able to do so.",
    ],
)
def test_a_refusal_is_told_by_its_first_words(answer):
    assert is_refusal(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "We are very sorry to hear that.",
        "I'm sorry about the delay. Open Orders and choose Track.",
        "Open Billing. I can't see more than that.",
        "I canned the tomatoes.",
        "Es tut mir leid, das kann ich nicht.",
    ],
)
def test_regret_and_a_late_cannot_are_no_refusals(answer):
    assert not is_refusal(answer)


def test_every_opening_in_the_list_is_recognised():
    assert all(is_refusal(f"{opening.capitalize()} x") for opening in REFUSALS)


def test_a_call_that_the_agent_asks_for_is_missed_also_where_tools_are_offered():
    assert kinds_of(GeneratedAnswer("Shall I?", 1, 1), 9, OFFERED, "tool_call") == ["tool"]
    assert kinds_of(GeneratedAnswer(CALL[:-14], 1, 1), 9, OFFERED, "tool_call") == ["tool"]
