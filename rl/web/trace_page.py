"""One trace as people read it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rl.base.records import TaskEvent, ToolCall
from rl.collect.traces import records as trace_records
from rl.models import Feedback, Trace, TrainingSet
from rl.web.episode_page import episode_context
from rl.web.excerpt import Excerpt
from rl.web.trace_lists import conversation

EVENTS = 200
"""Feedback events that are shown."""


def trace_context(trace: Trace, whole: bool = False) -> dict[str, Any]:
    """What ``rl/trace_parts.html`` reads. Six queries at most."""
    shown = Excerpt(whole)
    episode = episode_context(trace, shown)
    return {
        "trace": trace,
        "messages": [{**each, "content": shown.text(each["content"])} for each in shown.last(trace.prompt)],
        "answer": shown.text(trace.response),
        **_work(trace, shown),
        "rewards": components(trace),
        "events": _events(trace, shown),
        "training_sets": list(TrainingSet.objects.filter(members__trace=trace).order_by("-created_at")),
        "proposal": getattr(trace, "label_proposal", None),
        "episode": episode,
        "conversation": [] if episode else conversation(trace),
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
        "details": shown.value(_details(trace)),
    }


def _details(trace: Trace) -> Any:
    """Less what is shown as an episode."""
    details = trace.details
    return (
        {name: value for name, value in details.items() if name != "episode"} if isinstance(details, dict) else details
    )


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
