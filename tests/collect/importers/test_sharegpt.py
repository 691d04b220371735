import pytest

from rl.base.records import ToolCall
from rl.collect.importers import sharegpt
from tests.collect.importers.reading import lines, one, reason, taken


def turns(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"from": speaker, "value": value} for speaker, value in pairs]


HELLO = {"id": "h1", "conversations": turns(("human", "Hi"), ("gpt", "Hello."))}


def test_a_conversation_is_one_answer_with_its_own_id(tmp_path):
    trace = one(sharegpt, tmp_path, {**HELLO, "system": "Be brief.", "source": "web"})
    assert (trace.external_id, trace.response, trace.details) == ("h1", "Hello.", {"source": "web"})
    assert [message["role"] for message in trace.prompt] == ["system", "user"]


def test_without_an_id_the_content_decides(tmp_path):
    row = {"conversations": HELLO["conversations"]}
    first, second = taken(sharegpt, lines(tmp_path, row, row))
    assert first.external_id == second.external_id


def test_function_calls_and_observations_are_tool_calls(tmp_path):
    talk = turns(
        ("human", "?"),
        ("function_call", '{"name": "f", "arguments": {"x": 1}}'),
        ("observation", "4"),
        ("gpt", "Four."),
    )
    trace = one(sharegpt, tmp_path, {"conversations": talk, "tools": "[]"})
    assert trace.tool_calls == (ToolCall("f", {"x": 1}, "4"),)
    assert trace.details == {"tools": []}


def test_the_words_of_chat_are_understood_too(tmp_path):
    talk = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    assert one(sharegpt, tmp_path, {"conversations": talk}).response == "Hello."


def test_chosen_and_rejected_are_a_comparison(tmp_path):
    row = {
        "id": "p",
        "conversations": turns(("human", "Hi")),
        "chosen": {"from": "gpt", "value": "A"},
        "rejected": {"from": "gpt", "value": "B"},
    }
    worse, better = taken(sharegpt, lines(tmp_path, row))
    assert (worse.external_id, better.external_id) == ("p/rejected", "p/chosen")
    assert better.feedback[0].other_external_id == "p/rejected"


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"conversations": []}, "conversations must be a list"),
        ({"conversations": [7]}, "conversations[0] is not an object"),
        ({"conversations": turns(("king", "x"))}, "conversations[0].from must be one of"),
        ({"conversations": [{"from": "human", "value": None}]}, "conversations[0].value must be text"),
        ({"conversations": turns(("human", "x"))}, "conversations has no message of the assistant"),
        ({"conversations": turns(("human", "x"), ("function_call", "{"))}, "conversations[1].value of a function_call"),
        ({**HELLO, "id": "x" * 201}, "id is longer than"),
        ({**HELLO, "id": {}}, "id must be text"),
    ],
)
def test_a_wrong_line_is_rejected_with_the_field(tmp_path, row, why):
    assert reason(sharegpt, tmp_path, row, HELLO).startswith(why)
