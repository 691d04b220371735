from typing import Any

from mcp.types import CallToolResult

from rl.environments.tools.mcp.tool import LONGEST_RESULT, text_of


def result(*content: dict[str, Any], **more: Any) -> CallToolResult:
    return CallToolResult.model_validate({"content": content, **more})


def test_texts_stand_below_each_other_and_what_is_no_text_is_named():
    shown = text_of(
        result(
            {"type": "text", "text": "Here."},
            {"type": "image", "data": "A" * 16_000, "mimeType": "image/png"},
            {"type": "audio", "data": "A" * 8, "mimeType": "audio/wav"},
            {"type": "resource_link", "name": "manual", "uri": "file:///manual.pdf"},
            {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///a.bin", "blob": "A" * 4000}},
        )
    )
    assert shown.splitlines() == [
        "Here.",
        "[image, 12 kB, not shown]",
        "[audio, 1 kB, not shown]",
        "[manual: file:///manual.pdf]",
        "inside",
        "[file:///a.bin, 3 kB, not shown]",
    ]


def test_a_structure_is_shown_where_there_are_no_words():
    structure = {"straße": [1, 2]}
    assert text_of(result(structuredContent=structure)) == '{"straße":[1,2]}'
    assert text_of(result({"type": "text", "text": "words"}, structuredContent=structure)) == "words"
    assert text_of(result()) == ""


def test_what_is_too_long_is_cut_and_counted():
    shown = text_of(result({"type": "text", "text": "o" * (LONGEST_RESULT + 7)}))
    assert shown == "o" * LONGEST_RESULT + "… (7 more characters)"
