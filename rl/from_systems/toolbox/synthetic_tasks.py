"""Tasks to train and to test with, from what agents were asked and did well."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from rl.from_systems.toolbox.records import ExecutionTrace

SOURCE = "checkpoint_derived"
_CODE = re.compile(r"\b(?:code|function|class|script|python|javascript|regex|bug|unit test)\b", re.IGNORECASE)
_SHELL = re.compile(r"\b(?:shell|bash|terminal|command line|directory|folder)\b", re.IGNORECASE)
_SHELL_TOOL = re.compile(r"shell|command|exec|terminal", re.IGNORECASE)


def synthetic_tasks(traces: Iterable[ExecutionTrace], most: int) -> list[dict[str, str]]:
    """Each question once: ``prompt``, ``category``, ``source``."""
    good = (trace for trace in traces if trace.label or (trace.label is None and trace.tasks_completed))
    questions = {trace.user_query: trace for trace in good if trace.user_query.strip()}
    tasks = ({"prompt": query, "category": category(trace), "source": SOURCE} for query, trace in questions.items())
    return list(islice(tasks, max(0, most)))


def category(trace: ExecutionTrace) -> str:
    """code_tasks, shell_tasks, interaction_tasks (talk that needs no tool), else general_tasks."""
    if "```" in trace.final_response or _CODE.search(trace.user_query):
        return "code_tasks"
    if _SHELL.search(trace.user_query) or any(_SHELL_TOOL.search(call.tool_name) for call in trace.tool_calls):
        return "shell_tasks"
    return "general_tasks" if trace.tool_calls else "interaction_tasks"
