import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from rl.collect.storable import unstorable
from rl.serving.gateway.answer import Answer, clean


def delta(finish: str | None = None, index: int = 0, **said: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": said, "finish_reason": finish}]}


def test_a_character_that_comes_in_two_halves_is_one():
    answer = Answer()
    for half in ("\ud83d", "\ude00"):
        answer.take(delta(content=half))
    assert clean("".join(answer.first.text)) == "😀"
    assert unstorable(clean("\ud83d and \x00")) == ""


def test_calls_that_all_have_the_index_0_are_told_apart_by_their_ids():
    answer = Answer()
    for call_id in ("a", "b"):
        call = {"index": 0, "id": call_id, "function": {"name": f"tool_{call_id}", "arguments": "{}"}}
        answer.take(delta(tool_calls=[call]))
    assert [(one.name, one.id) for one in answer.first.tool_calls()] == [("tool_a", "a"), ("tool_b", "b")]


def test_arguments_that_no_database_holds_stay_text():
    answer = Answer()
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"number": 1e999}'}}
    answer.take(delta(tool_calls=[call]))
    assert answer.first.tool_calls()[0].arguments == '{"number": 1e999}'


def test_a_role_alone_says_nothing():
    answer = Answer()
    answer.take(delta(role="assistant", content=""))
    assert (answer.says_something, answer.first_at, answer.is_finished) == (False, None, False)


def test_it_is_finished_when_each_choice_is():
    answer = Answer()
    answer.take(delta("stop", content="a"))
    answer.take(delta(index=1, content="b"))
    assert not answer.is_finished
    answer.take(delta("length", index=1))
    assert answer.is_finished


def test_what_is_no_piece_of_an_answer_is_passed_over():
    answer = Answer()
    for piece in ({}, {"choices": None}, {"choices": [None, {"delta": "x"}]}, delta(tool_calls=[None, {"id": 3}])):
        answer.take(piece)
    answer.take({"usage": {"prompt_tokens": -1, "completion_tokens": True}, "choices": []})
    assert (answer.tokens("prompt_tokens"), answer.tokens("completion_tokens")) == (None, None)
    assert answer.first.tool_calls() == []


STREAMS = Path(__file__).with_name("streams")
Piece = dict[str, Any]
Call = tuple[str, str, dict[str, Any]]
"""Id, name, arguments."""

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
ARGUMENTS = st.dictionaries(st.sampled_from(["city", "tz", "päth"]), TEXTS | st.integers(0, 99), max_size=3)
CALLS = st.lists(st.tuples(st.sampled_from(["weather", "time_in", "f"]), ARGUMENTS), min_size=1, max_size=3)


def chunk(delta: Piece, finish: str | None = None) -> Piece:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def cut(text: str, draw: st.DrawFn) -> list[str]:
    places = sorted(draw(st.sets(st.integers(0, len(text)), max_size=4)) | {0, len(text)})
    return [text[start:end] for start, end in zip(places, places[1:], strict=False)] or [""]


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Call], list[Piece]]:
    """Calls, and the deltas of them as OpenAI's protocol has them, cut anywhere."""
    calls: list[Call] = [(f"call_{at}", name, given) for at, (name, given) in enumerate(draw(CALLS))]
    deltas = []
    for index, (call_id, name, arguments) in enumerate(calls):
        first, *names = cut(name, draw)
        deltas.append({"index": index, "id": call_id, "type": "function", "function": {"name": first, "arguments": ""}})
        deltas += [{"index": index, "function": {"name": piece}} for piece in names]
        deltas += [{"index": index, "function": {"arguments": piece}} for piece in cut(json.dumps(arguments), draw)]
    return calls, deltas


def take(deltas: list[Piece]) -> tuple[list[Call], list[Piece]]:
    """What is stored, and what the client gets."""
    answer = Answer()
    taken = [answer.take(chunk({"tool_calls": [delta]})) for delta in deltas]
    return [(call.id, call.name, call.arguments or {}) for call in answer.first.tool_calls()], taken


def shown(chunks: list[Piece]) -> list[Call]:
    """What the official client makes of the chunks."""
    state = ChatCompletionStreamState()
    for piece in [*chunks, chunk({}, "tool_calls")]:
        list(state.handle_chunk(ChatCompletionChunk.construct(**piece)))
    message = state.get_final_completion().choices[0].message
    calls: Any = message.tool_calls or []
    return [(call.id or "", call.function.name, json.loads(call.function.arguments or "{}")) for call in calls]


@settings(max_examples=60)
@given(streams())
def test_a_stream_as_it_should_be_passes_unchanged_and_is_stored_as_the_official_client_shows_it(stream):
    calls, deltas = stream
    stored, taken = take(deltas)
    assert taken == [chunk({"tool_calls": [delta]}) for delta in deltas]
    assert stored == shown(taken) == calls


def name_in_each_piece(calls: list[Call], deltas: list[Piece]) -> list[Piece]:
    told = [
        {**delta, "function": {**delta["function"], "name": calls[delta["index"]][1]}, "id": calls[delta["index"]][0]}
        for delta in deltas
    ]
    return [delta for delta in told if "arguments" in delta["function"]]


def whole_again(calls: list[Call], deltas: list[Piece]) -> list[Piece]:
    return [*deltas, *whole(calls)]


def whole(calls: list[Call]) -> list[Piece]:
    return [
        {"index": at, "id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for at, (call_id, name, given) in enumerate(calls)
    ]


def as_objects(calls: list[Call], deltas: list[Piece]) -> list[Piece]:
    return [
        {**call, "function": {**call["function"], "arguments": given}}
        for call, (_, _, given) in zip(whole(calls), calls, strict=True)
    ]


def heads_at_0(calls: list[Call], deltas: list[Piece]) -> list[Piece]:
    heads = [{**call, "index": 0, "function": {**call["function"], "arguments": ""}} for call in whole(calls)]
    rest = [delta for delta in deltas if "name" not in delta["function"]]
    return [delta for at, head in enumerate(heads) for delta in (head, *(one for one in rest if one["index"] == at))]


def all_at_0(calls: list[Call], deltas: list[Piece]) -> list[Piece]:
    return [{**delta, "index": 0} for delta in deltas]


def from_one_on(calls: list[Call], deltas: list[Piece]) -> list[Piece]:
    return [{**delta, "index": delta["index"] + 1} for delta in deltas]


def without_index(calls: list[Call], deltas: list[Piece]) -> list[Piece]:
    return [{name: value for name, value in call.items() if name != "index"} for call in whole(calls)]


@pytest.mark.parametrize(
    "style",
    [name_in_each_piece, whole_again, as_objects, heads_at_0, all_at_0, from_one_on, without_index],
)
@settings(max_examples=30)
@given(streams())
def test_however_a_server_writes_its_calls_they_are_stored_and_shown_alike(style, stream):
    calls, deltas = stream
    stored, taken = take(style(calls, deltas))
    assert stored == calls
    assert shown(taken) == calls


@settings(max_examples=30)
@given(st.dictionaries(st.sampled_from(["weather", "time_in", "f"]), ARGUMENTS, min_size=1))
def test_whole_calls_without_ids_under_one_index_are_told_apart_by_their_names(given_calls):
    calls: list[Call] = [("", name, arguments) for name, arguments in given_calls.items()]
    stored, taken = take([{**call, "index": 0} for call in whole(calls)])
    assert stored == shown(taken) == calls


@pytest.mark.parametrize("path", sorted(STREAMS.glob("g[23]*.sse")), ids=lambda path: path.stem)
def test_what_was_sent_on_is_taken_again_unchanged(path: Path):
    lines = [line[6:] for line in path.read_text().splitlines() if line.startswith("data: {")]
    first, again = Answer(), Answer()
    sent = [first.take(json.loads(line)) for line in lines]
    assert [again.take(piece) for piece in sent] == sent
    assert again.first.tool_calls() == first.first.tool_calls()
    assert again.first.text == first.first.text


def test_a_whole_message_keeps_its_form_and_has_arguments_as_text():
    answer = Answer()
    call = {"id": "a", "type": "function", "function": {"name": "weather", "arguments": {"city": "Paris"}}}
    message = {"role": "assistant", "content": None, "tool_calls": [call, {**call, "id": "b"}]}
    taken = answer.take({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
    calls = taken["choices"][0]["message"]["tool_calls"]
    assert calls[0] == {**call, "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
    assert [(one.id, one.arguments) for one in answer.first.tool_calls()] == [
        ("a", {"city": "Paris"}),
        ("b", {"city": "Paris"}),
    ]


def test_calls_of_old_and_of_other_kinds_are_calls():
    old, custom = Answer(), Answer()
    for piece in ({"name": "weather", "arguments": ""}, {"arguments": '{"city": '}, {"arguments": '"Paris"}'}):
        assert old.take(chunk({"function_call": piece})) == chunk({"function_call": piece})
    head = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "run", "input": "SELECT "}}
    for delta in (head, {"index": 0, "custom": {"input": "1"}}):
        assert custom.take(chunk({"tool_calls": [delta]})) == chunk({"tool_calls": [delta]})
    assert [(call.name, call.arguments) for call in old.first.tool_calls()] == [("weather", {"city": "Paris"})]
    assert [(call.name, call.arguments) for call in custom.first.tool_calls()] == [("run", {"input": "SELECT 1"})]


def test_a_text_in_parts_is_text_and_what_was_thought_a_thought():
    answer = Answer()
    parts: list[Any] = [
        [{"type": "thinking", "thinking": [{"type": "text", "text": "hmm"}]}],
        [{"type": "text", "text": "the "}, {"type": "reference", "reference_ids": [1]}],
        "answer",
        [{"type": "tool_use", "id": "c", "name": "weather", "input": {"city": "Paris"}}],
    ]
    taken = [answer.take(chunk({"content": part})) for part in parts]
    deltas = [piece["choices"][0]["delta"] for piece in taken]
    assert [delta["content"] for delta in deltas] == ["", "the ", "answer", ""]
    assert deltas[0]["reasoning_content"] == "hmm"
    assert ("".join(answer.first.text), answer.first.thoughts) == ("the answer", ["hmm"])
    assert [(call.id, call.name, call.arguments) for call in answer.first.tool_calls()] == [
        ("c", "weather", {"city": "Paris"})
    ]
