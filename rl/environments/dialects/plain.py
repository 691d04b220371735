"""Tools for models that know nothing of tools: described in the instructions, results as a message of the user.

Few words, since small models read all of them at every task. Calls are written as in ``rl.environments.dialects.hermes``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rl.environments.dialects.hermes import SHAPE

RESULT, RESULT_END = "<tool_response>", "</tool_response>"


def describe_tools(tools: Sequence[Mapping[str, Any]]) -> str:
    """One line for each tool, as JSON, and a sentence on how to call them; empty without tools."""
    if not tools:
        return ""
    lines = [json.dumps(tool["function"], ensure_ascii=False, separators=(",", ":")) for tool in tools]
    return "\n".join(["Tools:", *lines, f"To call one, write {SHAPE}"])


def wrap_result(result: str) -> str:
    return f"{RESULT}\n{result}\n{RESULT_END}"


def guard_result(result: str) -> str:
    """A tool's result that cannot end itself and go on as something else."""
    return result.replace(RESULT_END[:-1], "< /tool_response")
