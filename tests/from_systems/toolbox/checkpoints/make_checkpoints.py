"""Checkpoints as ToolBoxV2 writes them: by a process that has a package ``toolboxv2``, which this one has not."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

TYPES = """
import enum
from dataclasses import dataclass, field

class TaskStatus(enum.Enum):
    COMPLETED = "completed"
    FAILED = "failed"
    RUNNING = "running"

class Role(str, enum.Enum):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"

@dataclass
class Task:
    id: str
    status: TaskStatus
    type: str = "ToolTask"
    description: str = ""
    result: object = None
    error: object = None
    created_at: object = None
    completed_at: object = None

class Usage:
    __slots__ = ("calls", "tools")
    def __init__(self, calls, tools):
        self.calls, self.tools = calls, tools
    def __getstate__(self):
        return None, {"calls": self.calls, "tools": self.tools}
    def __setstate__(self, state):
        raise RuntimeError("state was set")

class Scopes(dict):
    pass

class History(list):
    pass

class AgentModelData:
    class Kind(enum.Enum):
        FAST = 1
    def __init__(self, name):
        self.name, self.kind = name, self.Kind.FAST
    def __reduce_ex__(self, protocol):
        return object.__reduce_ex__(self, protocol)

@dataclass
class AgentCheckpoint:
    timestamp: object
    agent_state: dict
    task_state: dict
    world_model: dict
    active_flows: list
    metadata: dict
    session_data: dict
    conversation_history: list
    variable_scopes: dict
    tool_capabilities: dict
    results_store: dict
    execution_history: list
"""
"""As ``toolboxv2.mods.isaa.base.Agent.types`` has them, and things that real values hold."""

WRITER = """
import collections, datetime, decimal, json, pathlib, pickle, sys, uuid
sys.path.insert(0, sys.argv[1])
from toolboxv2.mods.isaa.base.Agent.types import *

BEGIN = datetime.datetime(2026, 1, 5, 9, 0)
ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "tool": Role.TOOL}

def message(role, content, minute, **more):
    return {"role": ROLES[role], "content": content, "timestamp": BEGIN + datetime.timedelta(minutes=minute), **more}

def turn(agent, number):
    at = 10 * number
    yield message("user", f"{agent}: question {number}", at)
    yield message("assistant", "", at)
    yield message("tool", f"found {number}", at + 1, name="search", arguments={"q": number})
    if number % 2:
        yield message("tool", "", at + 1, name="fetch", arguments={"url": "x"}, error="timed out")
    yield message("assistant", f"{agent}: answer {number}", at + 2)

def checkpoint(agent, first, last):
    history = History(each for number in range(first, last) for each in turn(agent, number))
    statuses = [TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.RUNNING]
    tasks = {f"t{n}": Task(f"t{n}", statuses[n % 3], description=f"task {n}",
                           result=f"done {n}", error="broke", created_at=BEGIN + datetime.timedelta(minutes=10 * n + 1))
             for n in range(last)}
    made = AgentCheckpoint(
        timestamp=BEGIN + datetime.timedelta(minutes=10 * last),
        agent_state={"total_tokens_in": 100 * last, "total_tokens_out": 10 * last + 1, "total_cost_accumulated": 0.5 * last,
                     "total_llm_calls": 2 * last, "amd_data": AgentModelData(agent)},
        task_state=tasks,
        world_model={"seen": {1, 2}, "ids": frozenset([3]), "key": b"\\x00\\xff",
                     "home": pathlib.PurePosixPath("/srv/data")},
        active_flows=[],
        metadata=collections.OrderedDict(id=uuid.UUID(int=7), price=decimal.Decimal("1.25"), z=2j, ratio=float("nan")),
        session_data={"s1": {"history": history, "session_type": "chat"}, "empty": {"history": []}},
        conversation_history=list(history),
        variable_scopes=Scopes({
            "delegation": {f"loop_{last}": {"plan": f"step {last}"}, "other": 1},
            "reasoning": {"final_result": f"result {last}", "session_complete": True}}),
        tool_capabilities=collections.defaultdict(list, search=["q"]),
        results_store={"usage": Usage(3, collections.deque(["a", "b"])), "kind": AgentModelData.Kind.FAST, "big": 2**200},
        execution_history=[datetime.date(2026, 1, 5), datetime.time(9, 30), datetime.timedelta(seconds=90),
                           datetime.datetime(2026, 1, 5, 9, tzinfo=datetime.timezone.utc), ValueError("no"), "\\ud83d cut"],
    )
    made.metadata["self"] = made
    made.active_flows.append(made.active_flows)
    return made

for path, agent, first, last, protocol in json.loads(sys.argv[2]):
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(path).write_bytes(pickle.dumps(checkpoint(agent, first, last), protocol))
"""


def write_checkpoints(folder: Path, *wanted: tuple[str, str, int, int, int]) -> None:
    """Each: path below ``folder``, the agent's name, first and last turn (not included), protocol."""
    package = folder.parent / "writer" / "toolboxv2" / "mods" / "isaa" / "base" / "Agent"
    package.mkdir(parents=True, exist_ok=True)
    (package / "types.py").write_text(TYPES)
    arguments: list[Any] = [[str(folder / path), *rest] for path, *rest in wanted]
    subprocess.run(
        [sys.executable, "-c", WRITER, str(folder.parent / "writer"), json.dumps(arguments)], check=True, timeout=60
    )
