from __future__ import annotations

from typing import Any

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
