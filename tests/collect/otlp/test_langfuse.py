"""Langfuse's observations, as its SDKs for Python (5.0.4) and Node (5.11.1) send them."""

import json
from typing import Any

import pytest

from rl.collect.otlp import PROTOBUF, decode, langfuse, map_spans
from rl.collect.otlp.spans import Requested, SpanAnswer, ToolRun
from tests.collect.otlp.make_spans import body, span

ASKED = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Where is 4711?"}]
TRACK = {"type": "function", "function": {"name": "track", "parameters": {"type": "object", "properties": {}}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "track", "arguments": '{"number": "4711"}'}}


def observation(kind: str, given: Any = None, said: Any = None, **more: Any) -> dict[str, Any]:
    """``more``: attributes below ``langfuse.observation``, with ``__`` for a dot."""
    written = {"input": given, "output": said, **more}
    return {
        "langfuse.observation.type": kind,
        **{
            "langfuse.observation." + name.replace("__", "."): value if isinstance(value, str) else json.dumps(value)
            for name, value in written.items()
        },
    }


def read(attributes: dict[str, Any], **more: Any) -> Any:
    (found,) = decode(body(span(attributes, **more)), PROTOBUF)
    return langfuse.read(found)


def test_a_generation_is_read_with_all_that_it_says():
    found = read(
        {
            **observation(
                "generation",
                {"messages": ASKED, "tools": [TRACK]},
                {"role": "assistant", "content": "In Bonn.", "reasoning_content": "hm"},
                model__name="tiny",
                usage_details={"input": 12, "output": 4},
                cost_details={"total": 0.5},
                metadata__finish_reason='"stop"',
            ),
            "session.id": "talk-9",
        }
    )
    assert isinstance(found, SpanAnswer)
    assert [(one["role"], one["content"]) for one in found.prompt] == [(o["role"], o["content"]) for o in ASKED]
    assert (found.response, found.reasoning, found.model, found.session_id) == ("In Bonn.", ("hm",), "tiny", "talk-9")
    assert (found.tokens_in, found.tokens_out, found.cost, found.finish_reason) == (12, 4, 0.5, "stop")
    assert [tool["function"]["name"] for tool in found.tools] == ["track"]


def test_tokens_may_have_the_names_of_the_provider():
    found = read(observation("generation", ASKED, "x", usage_details={"prompt_tokens": 12, "completion_tokens": 4}))
    assert (found.tokens_in, found.tokens_out) == (12, 4)


def test_calls_of_tools_are_those_of_the_answer():
    found = read(observation("generation", ASKED, {"role": "assistant", "content": None, "tool_calls": [CALL]}))
    assert found.requested == (Requested("track", {"number": "4711"}, "c1"),)


def test_items_of_a_response_are_its_answer():
    items = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "In Bonn."}]},
        {"type": "function_call", "call_id": "c1", "name": "track", "arguments": '{"number": "4711"}'},
    ]
    found = read(observation("generation", ASKED, items))
    assert (found.response.partition("\n")[0], found.reasoning) == ("In Bonn.", ("hm",))
    assert found.requested == (Requested("track", {"number": "4711"}, "c1"),)


@pytest.mark.parametrize(
    "given",
    [
        "Where is 4711?",
        {"args": ["Where is 4711?"], "kwargs": {}},
        {"args": [], "kwargs": {"question": "Where is 4711?"}},
        {"args": [ASKED[1:]], "kwargs": {}},
        {"args": [], "kwargs": {"messages": ASKED[1:]}},
    ],
)
def test_the_only_argument_of_a_function_is_the_question(given: Any):
    assert [(one["role"], one["content"]) for one in read(observation("generation", given, "x")).prompt] == [
        ("user", "Where is 4711?")
    ]


def test_results_of_tools_without_a_role_are_those_of_the_calls_before():
    """@langfuse/langchain 5.11.1 sends them so."""
    calls = [CALL, {**CALL, "id": "c2"}]
    results = [{"content": text, "additional_kwargs": {}} for text in ("in Bonn", "in Ulm")]
    given = [*ASKED, {"role": "assistant", "content": "", "tool_calls": calls}, *results]
    found = read(observation("generation", {"messages": given}, "In Bonn and Ulm."))
    told = [(one["role"], one["content"], one.get("tool_call_id")) for one in found.prompt[3:]]
    assert told == [("tool", "in Bonn", "c1"), ("tool", "in Ulm", "c2")]
    (asked,) = read(observation("generation", results, "x")).prompt
    assert asked["role"] == "user"


def test_other_input_is_the_question_as_it_is_written():
    (asked,) = read(observation("generation", {"city": "Bonn", "day": 3}, "x")).prompt
    assert json.loads(asked["content"]) == {"city": "Bonn", "day": 3}


def test_a_tool_is_read_with_its_arguments():
    found = read(observation("tool", {"args": [], "kwargs": {"number": "4711"}}, "in Bonn"), name="track")
    assert found == ToolRun(name="track", arguments={"number": "4711"}, result="in Bonn")


def test_what_failed_says_why():
    failed = {"level": "ERROR", "status_message": "no such parcel"}
    found = read(observation("tool", "4711", "", **failed), name="track")
    assert (found.failed, found.error) == (True, "no such parcel")
    assert read(observation("generation", ASKED, "In", **failed)).finish_reason == "error"


@pytest.mark.parametrize(
    "kind", ["span", "agent", "chain", "retriever", "evaluator", "guardrail", "embedding", "event"]
)
def test_other_observations_are_passed_over(kind: str):
    mapped = map_spans(decode(body(span(observation(kind, "a", "b"))), PROTOBUF))
    assert (mapped.answers, mapped.loose, mapped.refused) == ([], [], [])


def test_a_dialect_that_is_not_read_is_named():
    spans = [span({"mlflow.spanInputs": "{}"}, id=1), span({"genkit:input": "{}"}, id=2)]
    reasons = [rejected.reason for rejected in map_spans(decode(body(*spans), PROTOBUF)).refused]
    assert [reason.split(" tells")[0] for reason in reasons] == ["MLflow", "Genkit"]
    assert all("gen_ai.*" in reason for reason in reasons)
