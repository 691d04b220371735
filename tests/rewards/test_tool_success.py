from __future__ import annotations

from rl.base.records import ToolCall
from rl.rewards import ToolSuccessReward
from tests.rewards.records import record


def test_it_is_the_share_of_the_calls_that_succeeded():
    calls = (ToolCall("search"), ToolCall("mail", success=False), ToolCall("mail", success=False), ToolCall("pay"))
    result = ToolSuccessReward().compute(record(tool_calls=calls))
    assert (result.value, result.reason) == (0.5, "2 of 4 tool calls succeeded")
    assert result.details == {"calls": 4, "failed": ["mail"]}


def test_without_a_call_it_does_not_apply():
    assert ToolSuccessReward().compute(record()).value is None
