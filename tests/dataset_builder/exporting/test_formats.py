"""What a row of each format looks like."""

import json

import pytest

from rl.base.errors import UsageError
from rl.collect.feedback.write import compare, correct
from rl.dataset_builder.exporting import FORMATS, row_format
from tests.conftest import make_trace
from tests.dataset_builder.exporting.exports import exported
from tests.dataset_builder.ratings import rate, rate_prompts

ASKED = [{"role": "user", "content": "Where is my parcel?"}]
CALLS = [
    {"tool_name": "search", "arguments": {"parcel": 7}, "result": "found", "success": True},
    {"tool_name": "track", "arguments": None, "result": {"stop": "depot"}, "success": True},
    {"tool_name": "search", "arguments": {"depot": "x"}, "result": None, "success": False, "error": "timed out"},
]


@pytest.mark.database
def test_the_rows_of_methods_have_the_columns_of_trainers_and_no_others(agent, tmp_path):
    for event in rate_prompts(agent, 1):
        event.trace.reward = event.value
        event.trace.save()
    asked = [{"role": "user", "content": "Question 0?"}]
    good, bad = ([{"role": "assistant", "content": f"Answer 0 is {word}."}] for word in ("good", "bad"))
    assert exported(agent, "dpo", tmp_path) == [{"prompt": asked, "chosen": good, "rejected": bad}]
    kto = exported(agent, "kto", tmp_path)
    assert sorted(kto, key=lambda row: row["label"]) == [
        {"prompt": asked, "completion": bad, "label": False},
        {"prompt": asked, "completion": good, "label": True},
    ]
    [grpo] = exported(agent, "grpo", tmp_path)
    assert sorted(zip(grpo["rewards"], grpo["completions"], strict=True)) == [(0.0, bad), (1.0, good)]
    assert set(grpo) == {"prompt", "completions", "rewards"}
    assert {tuple(row) for row in exported(agent, "reward", tmp_path)} == {("prompt", "completion", "reward")}


def test_chats_are_answers_worth_imitating(agent, trace, tmp_path):
    rate(make_trace(agent, "Bad?", "Bad."), 0)
    rate(make_trace(agent, "Good?", "Good."), 1)
    make_trace(agent, "Poor?", "Poor.", reward=0.1)
    wrong = make_trace(agent, "When?", "Never.")
    rate(wrong, 0)
    correct(wrong, text="On Friday.", rater="alice", source="test")
    make_trace(agent, "Silent?", "")
    rows = exported(agent, "trl", tmp_path)
    assert {row["completion"][0]["content"] for row in rows} == {"On its way.", "Good.", "On Friday."}
    assert rows[0]["prompt"][0]["role"] == "user"


def test_openai_shows_tool_calls_as_messages_and_names_the_tools(agent, tmp_path):
    make_trace(agent, tool_calls=CALLS)
    [row] = exported(agent, "openai", tmp_path)
    called = [message["tool_calls"][0] for message in row["messages"] if message.get("tool_calls")]
    assert [(call["id"], call["type"], call["function"]["name"]) for call in called] == [
        ("call_1", "function", "search"),
        ("call_2", "function", "track"),
        ("call_3", "function", "search"),
    ]
    assert [json.loads(call["function"]["arguments"]) for call in called] == [{"parcel": 7}, {}, {"depot": "x"}]
    told = [(one["tool_call_id"], one["content"]) for one in row["messages"] if one["role"] == "tool"]
    assert told == [("call_1", "found"), ("call_2", '{"stop": "depot"}'), ("call_3", "timed out")]
    assert row["messages"][0] == ASKED[0]
    assert row["messages"][-1] == {"role": "assistant", "content": "On its way."}
    assert {tool["function"]["name"]: list(tool["function"]["parameters"]["properties"]) for tool in row["tools"]} == {
        "search": ["parcel"],
        "track": [],
    }


def test_arguments_that_came_as_json_text_are_not_written_twice_and_one_without_a_name_gets_one(agent, tmp_path):
    arguments = ['{"parcel": 7}', "parcel 7", [7]]
    make_trace(agent, tool_calls=[{"tool_name": "search", "arguments": one, "result": "found"} for one in arguments])
    [row] = exported(agent, "openai", tmp_path)
    called = [message["tool_calls"][0]["function"] for message in row["messages"] if message.get("tool_calls")]
    assert [json.loads(call["arguments"]) for call in called] == [{"parcel": 7}, {"input": "parcel 7"}, {"input": [7]}]
    assert list(row["tools"][0]["function"]["parameters"]["properties"]) == ["parcel", "input"]
    turns = exported(agent, "sharegpt", tmp_path)[0]["conversations"]
    assert json.loads(turns[1]["value"]) == {"name": "search", "arguments": {"parcel": 7}}


def test_each_text_is_imitated_once_and_not_when_most_say_that_it_is_bad(agent, trace, tmp_path):
    make_trace(agent, response=" On its way.")
    for number, value in enumerate((1, 0, 0)):
        rate(make_trace(agent, "When?", "Never."), value, f"rater {number}")
    make_trace(agent, "When?", "Never.")
    one, other = (make_trace(agent, "Which?", text) for text in ("Yes.", "No."))
    compare(one, other, choice="both_bad", rater="alice", source="test")
    assert [row["completion"][0]["content"].strip() for row in exported(agent, "trl", tmp_path)] == ["On its way."]


def test_openai_without_tool_calls_is_messages_alone(agent, trace, tmp_path):
    assert exported(agent, "openai", tmp_path) == [
        {"messages": [*ASKED, {"role": "assistant", "content": "On its way."}]}
    ]


@pytest.mark.database
def test_sharegpt_names_the_speakers(agent, tmp_path):
    trace = make_trace(agent, tool_calls=CALLS[:1])
    trace.prompt = [{"role": "system", "content": "Be short."}, *trace.prompt]
    trace.save()
    [row] = exported(agent, "sharegpt", tmp_path)
    assert [turn["from"] for turn in row["conversations"]] == ["system", "human", "function_call", "observation", "gpt"]
    assert json.loads(row["conversations"][2]["value"]) == {"name": "search", "arguments": {"parcel": 7}}
    assert row["conversations"][3]["value"] == "found"


def test_unknown_formats_are_refused_with_those_there_are():
    with pytest.raises(UsageError, match="unknown format 'csv'; known: kto, grpo, dpo"):
        row_format("csv")
    assert all(row_format(name).columns for name in FORMATS)
