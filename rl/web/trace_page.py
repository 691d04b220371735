"""One trace as people read it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rl.base.records import ReasoningStep, TaskEvent, ToolCall
from rl.collect.traces import records as trace_records
from rl.models import Feedback, Trace, TrainingSet
from rl.web.episode_page import episode_context
from rl.web.excerpt import Excerpt
from rl.web.trace_lists import conversation

EVENTS = 200
"""Feedback events that are shown."""


def trace_context(trace: Trace, whole: bool = False) -> dict[str, Any]:
    """What ``rl/trace_parts.html`` reads. Six queries at most."""
    excerpt = Excerpt(whole)
    episode = episode_context(trace, excerpt)
    return {
        "trace": trace,
        "messages": [
            {**message, "content": excerpt.text(message["content"])} for message in excerpt.last(trace.prompt)
        ],
        "answer": excerpt.text(trace.response),
        **_work(trace, excerpt),
        "rewards": components(trace),
        "events": _events(trace, excerpt),
        "training_sets": list(TrainingSet.objects.filter(members__trace=trace).order_by("-created_at")),
        "proposal": getattr(trace, "label_proposal", None),
        "episode": episode,
        "conversation": [] if episode else conversation(trace),
        "cut": excerpt.cut,
        "whole": whole,
    }


def components(trace: Trace) -> list[dict[str, Any]]:
    """The rewards that apply first, each with its percentage; then those that say why they do not."""
    stored = trace.rewards if isinstance(trace.rewards, dict) else {}
    rewards = [{"name": name, **reward} for name, reward in stored.items() if isinstance(reward, dict)]
    for reward in rewards:
        value = reward.get("value")
        reward["percent"] = round(value * 100) if isinstance(value, (int, float)) else None
    return sorted(rewards, key=lambda reward: (reward["percent"] is None, reward["name"]))


def _work(trace: Trace, excerpt: Excerpt) -> dict[str, Any]:
    calls = list(trace_records.tool_calls(trace.tool_calls))
    steps = list(trace_records.reasoning_steps(trace.reasoning_steps))
    return {
        "tool_calls": [_tool_call(call, excerpt) for call in excerpt.first(calls)],
        "number_of_calls": len(calls),
        "reasoning": [_step(step, excerpt) for step in excerpt.first(steps)],
        "number_of_steps": len(steps),
        "tasks": [_task(task, excerpt) for task in excerpt.first(trace_records.task_events(trace.tasks))],
        "state": excerpt.value(trace.state),
        "action": excerpt.value(trace.action),
        "details": excerpt.value(_details(trace)),
    }


def _details(trace: Trace) -> Any:
    """The trace's details without what is shown as an episode."""
    details = trace.details
    return (
        {name: value for name, value in details.items() if name != "episode"} if isinstance(details, dict) else details
    )


def _tool_call(call: ToolCall, excerpt: Excerpt) -> dict[str, Any]:
    return {
        "name": call.tool_name,
        "arguments": excerpt.value(call.arguments),
        "result": excerpt.value(call.result),
        "success": call.success,
        "error": excerpt.text(call.error),
        "duration_ms": call.duration_ms,
    }


def _step(step: ReasoningStep, excerpt: Excerpt) -> ReasoningStep:
    insights, issues = (tuple(map(excerpt.text, excerpt.first(texts))) for texts in (step.insights, step.issues))
    return replace(step, content=excerpt.text(step.content), insights=insights, issues=issues)


def _task(task: TaskEvent, excerpt: Excerpt) -> TaskEvent:
    return replace(
        task,
        description=excerpt.text(task.description),
        error=excerpt.text(task.error),
        result=excerpt.value(task.result),
    )


def _events(trace: Trace, excerpt: Excerpt) -> list[Feedback]:
    events = list(trace.feedback.order_by("-created_at", "-id")[:EVENTS])
    for event in events:
        event.text = excerpt.text(event.text)
    return events
