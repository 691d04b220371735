"""One trace as people read it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from rl.collect import trace_records
from rl.models import Feedback, Trace, TrainingSet
from rl.records import TaskEvent, ToolCall
from rl.web.trace_lists import conversation

EVENTS = 200
"""Feedback events that are shown."""
STEPS = 100
"""Messages, tool calls, steps and tasks that are shown, of each, unless somebody asks for all."""
CHARACTERS = 10_000
"""Of one text. A browser takes seconds to lay out a megabyte."""

T = TypeVar("T")


class Excerpt:
    """Cuts what is too long to read, and knows whether it has cut anything."""

    def __init__(self, whole: bool) -> None:
        self.whole, self.cut = whole, False

    def text(self, text: str) -> str:
        over = len(text) - CHARACTERS
        if self.whole or over <= 0:
            return text
        self.cut = True
        return f"{text[:CHARACTERS]}… ({over:,} more characters)"

    def first(self, items: Iterable[T]) -> list[T]:
        return self._some(list(items), slice(STEPS))

    def last(self, items: Iterable[T]) -> list[T]:
        return self._some(list(items), slice(-STEPS, None))

    def value(self, value: Any) -> str:
        """JSON, or the text that it is; empty for nothing."""
        return self.text(readable(value)) if value not in (None, "", {}) else ""

    def _some(self, items: list[T], which: slice) -> list[T]:
        if self.whole or len(items) <= STEPS:
            return items
        self.cut = True
        return items[which]


def trace_context(trace: Trace, whole: bool = False) -> dict[str, Any]:
    """What ``rl/trace_parts.html`` reads. Five queries."""
    shown = Excerpt(whole)
    return {
        "trace": trace,
        "messages": [{**each, "content": shown.text(each["content"])} for each in shown.last(trace.prompt)],
        "answer": shown.text(trace.response),
        **_work(trace, shown),
        "rewards": components(trace),
        "events": _events(trace, shown),
        "training_sets": list(TrainingSet.objects.filter(members__trace=trace).order_by("-created_at")),
        "proposal": getattr(trace, "label_proposal", None),
        "conversation": conversation(trace),
        "cut": shown.cut,
    }


def components(trace: Trace) -> list[dict[str, Any]]:
    """The rewards that apply first, each with its percentage; then those that say why they do not."""
    stored = trace.rewards if isinstance(trace.rewards, dict) else {}
    found = [{"name": name, **one} for name, one in stored.items() if isinstance(one, dict)]
    for one in found:
        value = one.get("value")
        one["percent"] = round(value * 100) if isinstance(value, (int, float)) else None
    return sorted(found, key=lambda one: (one["percent"] is None, one["name"]))


def readable(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _work(trace: Trace, shown: Excerpt) -> dict[str, Any]:
    calls = list(trace_records.tool_calls(trace.tool_calls))
    steps = list(trace_records.reasoning_steps(trace.reasoning_steps))
    return {
        "tool_calls": [_tool_call(call, shown) for call in shown.first(calls)],
        "number_of_calls": len(calls),
        "reasoning": [replace(step, content=shown.text(step.content)) for step in shown.first(steps)],
        "number_of_steps": len(steps),
        "tasks": [_task(task, shown) for task in shown.first(trace_records.task_events(trace.tasks))],
        "state": shown.value(trace.state),
        "action": shown.value(trace.action),
        "details": shown.value(trace.details),
    }


def _tool_call(call: ToolCall, shown: Excerpt) -> dict[str, Any]:
    return {
        "name": call.tool_name,
        "arguments": shown.value(call.arguments),
        "result": shown.value(call.result),
        "success": call.success,
        "error": shown.text(call.error),
        "duration_ms": call.duration_ms,
    }


def _task(task: TaskEvent, shown: Excerpt) -> TaskEvent:
    return replace(
        task,
        description=shown.text(task.description),
        error=shown.text(task.error),
        result=shown.value(task.result),
    )


def _events(trace: Trace, shown: Excerpt) -> list[Feedback]:
    events = list(trace.feedback.order_by("-created_at", "-id")[:EVENTS])
    for event in events:
        event.text = shown.text(event.text)
    return events
