from typing import Any

import pytest

from rl.from_systems.toolbox.checkpoints.extraction import extract
from rl.from_systems.toolbox.checkpoints.opcodes import OpcodeRefused

RESULT = {"final_result": "r", "session_complete": True}
PARTS = ("session_data", "conversation_history", "task_state", "variable_scopes", "agent_state")


def said(role: str, content: Any, timestamp: str = "", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "timestamp": timestamp, **more}


def conversations(*history: dict[str, Any]) -> list[dict[str, Any]]:
    return list(extract({"session_data": {"s": {"history": list(history)}}})[1])


def words(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["user_query"], each["final_response"]) for each in found]


def about(**parts: Any) -> dict[str, Any]:
    return extract({"session_data": {}, **parts})[0]


def test_each_question_goes_with_the_next_answer():
    found = conversations(said("user", "a"), said("assistant", "1"), said("user", "b"), said("assistant", "2"))
    assert words(found) == [("a", "1"), ("b", "2")]


def test_empty_messages_do_not_count():
    found = conversations(
        said("user", " "),
        said("assistant", "hello"),
        said("user", "a"),
        said("assistant", ""),
        said("assistant", "\n"),
        said("assistant", "1"),
        said("assistant", "2"),
    )
    assert words(found) == [("a", "1")]


def test_two_questions_before_one_answer_are_one_and_one_without_answer_is_none():
    found = conversations(said("user", "a"), said("user", "b"), said("assistant", "1"), said("user", "c"))
    assert words(found) == [("a\n\nb", "1")]


def test_tools_between_question_and_answer_are_its_tool_calls():
    found = conversations(
        said("tool", "before", name="none"),
        said("user", "a"),
        said("tool", "x" * 3000, name="search", arguments={"q": 1}),
        said("tool", "", name="fetch", error="timed out"),
        said("assistant", "1"),
        said("tool", "after", name="none"),
    )
    search, fetch = found[0]["tool_calls"]
    assert (search["tool_name"], search["arguments"], search["success"]) == ("search", {"q": 1}, True)
    assert len(search["result"]) == 2000
    assert (fetch["success"], fetch["error"]) == (False, "timed out")


def test_roles_and_texts_may_be_enums_and_parts():
    parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": "x"}, "here"]
    question = {"role": {"$class": "Role", "$value": "USER"}, "content": parts}
    answer = {"role": {"$type": "toolboxv2.Role.ASSISTANT"}, "content": {"$class": "Text", "$value": "1"}}
    assert words(conversations(question, answer)) == [("look\nhere", "1")]


def test_the_time_between_them_is_the_duration_where_it_can_be():
    minute = conversations(said("user", "a", "2026-01-05T09:00:00"), said("assistant", "1", "2026-01-05T09:01:00"))
    backwards = conversations(said("user", "a", "2026-01-05T09:00:00"), said("assistant", "1", "2026-01-05T08:00:00"))
    unknown = conversations(said("user", "a", "yesterday"), said("assistant", "1", "2026-01-05T08:00:00"))
    assert [each[0]["execution_duration_ms"] for each in (minute, backwards, unknown)] == [60_000, 0, 0]
    assert unknown[0]["timestamp"] == ""


def test_the_same_conversation_has_the_same_id_and_another_time_another_one():
    def ids(timestamp: str, answer: str = "1") -> str:
        return conversations(said("user", "a", timestamp), said("assistant", answer))[0]["trace_id"]

    assert ids("2026-01-05T09:00:00") == ids("2026-01-05T09:00:00", "cut")
    assert ids("2026-01-05T09:00:00") != ids("2026-01-05T09:00:01")
    assert ids("", "1") != ids("", "2")


def test_the_agents_own_history_counts_where_there_is_no_session():
    history = [said("user", "a"), said("assistant", "1")]
    assert words(list(extract({"session_data": {}, "conversation_history": history})[1])) == [("a", "1")]
    sessions = {"s": {"history": [said("user", "b"), said("assistant", "2")]}}
    assert words(list(extract({"session_data": sessions, "conversation_history": history})[1])) == [("b", "2")]


def test_totals_come_from_the_state_of_the_agent():
    state = {
        "total_tokens_in": 7,
        "total_tokens_out": -1,
        "total_cost_accumulated": "much",
        "amd_data": {"name": "support"},
    }
    found = about(agent_state=state)
    assert found["agent"] == "support"
    assert found["totals"] == {"total_tokens_in": 7, "total_tokens_out": 0, "total_cost": 0, "llm_calls_count": 0}


def test_tasks_have_their_status_and_times_and_texts_are_cut():
    status = {"$class": "toolboxv2.TaskStatus", "$value": "COMPLETED"}
    task = {
        "status": status,
        "type": "ToolTask",
        "description": "d" * 900,
        "result": {"rows": [1]},
        "created_at": "2026-01-05",
    }
    (found,) = about(task_state={"t1": task, "odd": "text"})["tasks"]
    assert (found["task_id"], found["status"], found["created_at"]) == ("t1", "completed", "2026-01-05")
    assert (len(found["description"]), found["result"]) == (500, '{"rows": [1]}')


@pytest.mark.parametrize(
    "scopes",
    [
        {"delegation": {"loop_1": {"plan": "p"}, "loop_2": "", "x": 1}, "reasoning": RESULT},
        {
            "delegation.loop_1": {"plan": "p"},
            "delegation.x": 1,
            **{f"reasoning.{name}": RESULT[name] for name in RESULT},
        },
        {"$class": "Scopes", "$mapping": {"delegation": {"loop_1": {"plan": "p"}}, "reasoning": RESULT}},
    ],
)
def test_delegation_loops_and_the_final_result_are_reasoning(scopes: dict[str, Any]):
    assert about(variable_scopes=scopes)["reasoning_steps"] == [
        {"step_type": "delegation", "content": '{"plan": "p"}', "confidence": None},
        {"step_type": "final_result", "content": "r", "confidence": 1.0},
    ]


@pytest.mark.parametrize("root", [None, [1], "text", {"weights": 1}, {"$class": "torch.Tensor"}])
def test_what_is_no_checkpoint_is_refused(root: Any):
    with pytest.raises(OpcodeRefused, match="not a checkpoint of an agent"):
        extract(root)


@pytest.mark.parametrize(
    "junk", [None, 1, "x", [1], {"$cycle": True}, {"$pairs": [[[1], 2], "x"]}, {"s": None}, {"s": 1}]
)
def test_parts_of_another_shape_are_empty(junk: Any):
    found, told = extract(dict.fromkeys(PARTS, junk))
    assert (list(told), found["tasks"], found["reasoning_steps"]) == ([], [], [])
