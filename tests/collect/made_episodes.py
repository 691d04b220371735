"""Finished episodes, as an agent that trains reports them."""

from typing import Any

from rl.base.records import Message, ToolCall
from rl.environments.episode import PlayedEpisode, Turn

LOOKED = Turn(
    'I try it.\n<tool_call>{"name": "exec_code", "arguments": {"code": "print(3)"}}</tool_call>',
    (ToolCall("exec_code", {"code": "print(3)"}, "3\n", True, 12.5),),
    "3\n",
    tokens=20,
)
ANSWERED = Turn("```python\nprint(3)\n```", tokens=7)


def episode(task_id: str = "sum", **fields: Any) -> PlayedEpisode:
    values: dict[str, Any] = {
        "task": {"task_id": task_id, "prompt": "Print three.", "tests": [{"input": "", "output": "3"}]},
        "environment": "code_exec",
        "prompt": (Message(role="system", content="You write code."), Message(role="user", content="Print three.")),
        "turns": (LOOKED, ANSWERED),
        "reward": 1.0,
        "success": True,
        "reason": "all 1 test passed",
        "info": {"passed": 1},
        "tokens_in": 40,
        "seconds": 1.25,
    }
    return PlayedEpisode(task_id=task_id, **{**values, **fields})


def trained(task_id: str = "sum", step: int = 0, sample: int = 0, **fields: Any) -> PlayedEpisode:
    return episode(task_id, split="train", step=step, sample=sample, **fields)
