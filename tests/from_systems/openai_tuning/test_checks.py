"""What the lines of files to learn from must be."""

import json
from pathlib import Path
from typing import Any

import pytest

from rl.from_systems.openai_tuning import checks
from rl.from_systems.openai_tuning.checks import BadRows, check_form, check_rows

ASKED = {"role": "user", "content": "Where is my parcel?"}
SAID = {"role": "assistant", "content": "On its way."}
CALL = {"id": "call_1", "type": "function", "function": {"name": "track", "arguments": '{"number": 4711}'}}
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}
CHAT = {"messages": [{"role": "system", "content": "Be kind."}, ASKED, SAID]}
PREFERENCE = {
    "input": {"messages": [ASKED]},
    "preferred_output": [SAID],
    "non_preferred_output": [{"role": "assistant", "content": "Who knows."}],
}
GRADED = {"messages": [ASKED], "reference": "on its way"}


def written(folder: Path, *rows: Any) -> Path:
    """Rows, or lines as they are."""
    path = folder / "file-1"
    path.write_bytes(b"\n".join(row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows))
    return path


def complaint(path: Path, method: str, least: int = 1) -> str:
    with pytest.raises(BadRows) as raised:
        check_rows(path, method, least)
    return str(raised.value)


@pytest.mark.parametrize("row", [CHAT, PREFERENCE, GRADED, {"messages": [ASKED]}])
def test_a_line_that_has_a_known_form_may_come(tmp_path: Path, row: Any):
    check_form(written(tmp_path, row, b"", row))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"messages": [', "Line 2: is not JSON: expecting value"),
        (b'{"messages": "\xff"}', "Line 2: is not UTF-8"),
        (b"[1]", "Line 2: is not a JSON object"),
        (b'{"messages": [{"role": "user", "content": "\\u0000"}]}', "Line 2: /messages/0/content"),
        ({"prompt": "a", "completion": "b"}, "Line 2: missing key 'messages' (a preference has"),
        ({"messages": []}, "Line 2: messages must be a list of messages"),
        ({"messages": ["hello"]}, "Line 2: messages must be a list of messages"),
        ({"input": {"messages": [ASKED]}}, "Line 2: missing key 'preferred_output', 'non_preferred_output'"),
    ],
)
def test_a_line_of_another_form_is_named_by_its_number(tmp_path: Path, line: Any, problem: str):
    with pytest.raises(BadRows) as raised:
        check_form(written(tmp_path, CHAT, line, CHAT))
    assert str(raised.value).startswith(problem)


def test_an_empty_file_has_no_row(tmp_path: Path):
    with pytest.raises(BadRows, match="the file has 0 rows, and must have at least 1"):
        check_form(written(tmp_path))


def test_the_first_ten_lines_that_are_wrong_are_named_and_the_others_counted(tmp_path: Path):
    with pytest.raises(BadRows) as raised:
        check_form(written(tmp_path, CHAT, *[{}] * 14))
    named = str(raised.value).split("; ")
    assert [line.split(":")[0] for line in named] == [
        *(f"Line {number}" for number in range(2, 12)),
        "and 4 more lines",
    ]


@pytest.mark.parametrize(
    ("method", "row"),
    [
        ("supervised", CHAT),
        ("supervised", {"messages": [ASKED, {**SAID, "weight": 0}, ASKED, {**SAID, "weight": 1}]}),
        ("supervised", {"messages": [ASKED, {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]}]}),
        (
            "supervised",
            {"messages": [ASKED, CALLING, {"role": "tool", "tool_call_id": "call_1", "content": "gone"}, SAID]},
        ),
        ("supervised", {"messages": [ASKED, CALLING], "tools": [{"type": "function", "function": {"name": "track"}}]}),
        ("dpo", PREFERENCE),
        ("dpo", {**PREFERENCE, "non_preferred_output": [CALLING]}),
        ("reinforcement", GRADED),
        ("reinforcement", {"messages": [ASKED, SAID, ASKED]}),
    ],
)
def test_a_row_that_a_method_can_learn_from_is_counted(tmp_path: Path, method: str, row: Any):
    assert check_rows(written(tmp_path, row, row), method, 2) == 2


def said(**more: Any) -> dict[str, Any]:
    return {"messages": [ASKED, {**SAID, **more}]}


PICTURE = [{"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}]


@pytest.mark.parametrize(
    ("method", "row", "problem"),
    [
        ("supervised", PREFERENCE, "missing key 'messages'"),
        (
            "supervised",
            {"messages": [{"role": "robot", "content": "a"}, SAID]},
            "messages[0].role must be one of developer",
        ),
        ("supervised", {"messages": [{"role": ["user"], "content": "a"}, SAID]}, "messages[0].role must be one of"),
        ("supervised", {"messages": [{"role": "user", "content": PICTURE}, SAID]}, "messages[0].content must be text"),
        ("supervised", {"messages": [{"role": "user", "content": None}, SAID]}, "messages[0].content must be text"),
        ("supervised", {"messages": [{"role": "user"}, SAID]}, "messages[0].content must be text"),
        ("supervised", {"messages": [ASKED]}, "the last of messages must be the assistant's"),
        ("supervised", said(content=" "), "the last of messages says nothing"),
        ("supervised", said(weight=0.5), "messages[1].weight must be 0 or 1"),
        ("supervised", said(weight=True), "messages[1].weight must be 0 or 1"),
        ("supervised", {"messages": [{**ASKED, "weight": 1}, SAID]}, "messages[0].weight must be 0 or 1, and stand on"),
        ("supervised", said(weight=0), "every message of the assistant has the weight 0"),
        ("supervised", {"messages": [SAID]}, "messages has nothing before the answer"),
        ("supervised", {"messages": [{**ASKED, "content": ""}, SAID]}, "nothing is asked"),
        ("supervised", said(tool_calls={"a": 1}), "messages[1].tool_calls cannot be read: tool_calls must be a list"),
        (
            "supervised",
            said(tool_calls=[{}]),
            "messages[1].tool_calls cannot be read: a tool call must name its function",
        ),
        (
            "supervised",
            said(tool_calls=[{"function": {"name": "track", "arguments": "{"}}]),
            "messages[1].tool_calls cannot be read",
        ),
        ("supervised", {"messages": [{**ASKED, "tool_calls": [CALL]}, SAID]}, "messages[0].tool_calls must stand on"),
        ("supervised", {**CHAT, "tools": [{"name": "track"}]}, "tools must be a list of functions"),
        ("dpo", CHAT, "missing key 'input', 'preferred_output', 'non_preferred_output'"),
        ("dpo", {**PREFERENCE, "input": "hello"}, "input must be an object"),
        ("dpo", {**PREFERENCE, "input": {"messages": [ASKED, SAID]}}, "the last of input.messages must not be"),
        ("dpo", {**PREFERENCE, "preferred_output": [ASKED]}, "preferred_output[0].role must be one of assistant, tool"),
        ("dpo", {**PREFERENCE, "non_preferred_output": [SAID]}, "the two answers are the same"),
        ("dpo", {**PREFERENCE, "preferred_output": []}, "preferred_output must be a list of messages"),
        ("reinforcement", CHAT, "the last message must be the user's"),
        ("reinforcement", {"messages": [{**ASKED, "content": ""}]}, "nothing is asked"),
    ],
)
def test_a_row_that_a_method_cannot_learn_from_says_why(tmp_path: Path, method: str, row: Any, problem: str):
    assert complaint(written(tmp_path, row), method).startswith(f"Line 1: {problem}")


def test_a_training_needs_ten_rows_and_takes_as_many_as_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert (
        complaint(written(tmp_path, *[CHAT] * 9), "supervised", 10) == "the file has 9 rows, and must have at least 10"
    )
    monkeypatch.setattr(checks, "MOST_ROWS", 3)
    assert complaint(written(tmp_path, *[CHAT] * 4), "supervised") == "the file has 4 rows, and may have at most 3"
