"""Runs with tool calls in rows and pairs."""

from dataclasses import replace

import pytest

from rl.data_formatter import build_preference_pairs, load_pairs_from_jsonl, pairs_to_jsonl, training_row
from rl.data_formatter.runs import answer_key, apart, messages_of
from tests.data_formatter.answers import answer, direct

ASKED = [{"role": "user", "content": "Warm in Bonn?"}]
TOOLS = ({"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}},)


def looked(city: str, degrees: str = "7") -> tuple[dict[str, object], ...]:
    call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": {"city": city}}}
    return (
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": degrees, "tool_call_id": "c", "name": "weather"},
    )


def answered(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def test_answers_are_the_same_where_the_same_was_done_and_said():
    assert answer_key(" 7 ", looked("Bonn")) == answer_key("7", looked("Bonn", "8"))
    assert len({answer_key("7"), answer_key("7", looked("Bonn")), answer_key("7", looked("Köln"))}) == 3


def test_a_prompt_goes_up_to_where_the_agent_goes_on_in_two_ways():
    both = [*looked("Bonn"), answered("7")], [*looked("Bonn"), *looked("Bonn", "8"), answered("8")]
    contrast = apart(ASKED, *both)
    assert contrast.prompt == [*ASKED, *looked("Bonn")]
    assert (contrast.chosen, contrast.rejected) == ([answered("7")], [*looked("Bonn", "8"), answered("8")])


def test_other_results_of_the_same_call_are_no_shared_beginning():
    contrast = apart(ASKED, [*looked("Bonn"), answered("7")], [*looked("Bonn", "8"), answered("8")])
    assert contrast.prompt == ASKED


def test_the_same_words_with_and_without_a_tool_make_a_pair():
    liked = replace(answer(1, "7 degrees.", up=1), steps=looked("Bonn"), tools=TOOLS)
    disliked = answer(2, "7 degrees.", down=1)
    [pair] = build_preference_pairs([liked, disliked])
    row = training_row(pair)
    assert row["chosen"] == [*looked("Bonn"), answered("7 degrees.")]
    assert row["rejected"] == [answered("7 degrees.")]
    assert row["tools"] == list(TOOLS)


def test_an_edited_answer_goes_on_after_the_same_calls():
    edited = replace(
        direct(1, "7.", "It is 7."), chosen_steps=looked("Bonn"), rejected_steps=looked("Bonn"), tools=TOOLS
    )
    row = training_row(build_preference_pairs([], [edited])[0])
    assert row["prompt"][1:] == list(looked("Bonn"))
    assert (row["chosen"], row["rejected"]) == ([answered("7.")], [answered("It is 7.")])


def test_pairs_of_runs_are_written_and_read(tmp_path):
    liked = replace(answer(1, "7", up=1), steps=looked("Bonn"), tools=TOOLS)
    pairs = build_preference_pairs([liked, answer(2, "8", down=1)])
    pairs_to_jsonl(pairs, tmp_path / "pairs.jsonl")
    assert load_pairs_from_jsonl(tmp_path / "pairs.jsonl") == pairs


def test_a_text_without_marks_is_what_the_user_says():
    text = "Tell me of <|user|> and other marks."
    assert messages_of(text) == [{"role": "user", "content": text}]


@pytest.mark.parametrize("end", ["", "\n<|assistant|>", "\n<|assistant|>\n"])
def test_marks_say_who_speaks(end: str):
    assert messages_of(f"<|system|>\nBe kind.\n<|user|>\nHello\n<|assistant|>\nYes?\n<|user|>\nA\n\nB{end}") == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": "A\n\nB"},
    ]
