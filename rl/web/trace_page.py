"""One trace as people read it; of an episode, turn by turn what the agent said, called and read, and how it ended."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from rl.base.records import ReasoningStep, ToolCall
from rl.collect.traces import records as trace_records
from rl.environments.dialects.hermes import read_action
from rl.models import Episode, Trace, TrainingSet
from rl.web.rating_items import Excerpt
from rl.web.trace_lists import conversation

EVENTS = 200
"""Feedback events that are shown."""


def trace_context(trace: Trace, whole: bool = False) -> dict[str, Any]:
    """What ``rl/trace_parts.html`` reads. Seven queries at most."""
    excerpt, follow_up = Excerpt(whole), getattr(trace, "follow_up", None)
    if follow_up and not follow_up.is_sure:
        follow_up = None
    episode = episode_context(trace, excerpt)
    messages = [{**message, "content": excerpt.text(message["content"])} for message in excerpt.last(trace.prompt)]
    answer, work = excerpt.text(trace.response), _work(trace, excerpt)
    events = list(trace.feedback.order_by("-created_at", "-id")[:EVENTS])
    for event in events:
        event.text = excerpt.text(event.text)
    return {
        "trace": trace,
        "messages": messages,
        "answer": answer,
        **work,
        "rewards": components(trace),
        "events": events,
        "training_sets": list(TrainingSet.objects.filter(members__trace=trace).order_by("-created_at")),
        "proposal": getattr(trace, "label_proposal", None),
        "follow_up": follow_up,
        "next_message": excerpt.text(follow_up.next_trace.question) if follow_up else "",
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
    details = trace.details
    if isinstance(details, dict):  # without what is shown as an episode
        details = {name: value for name, value in details.items() if name != "episode"}
    calls = list(trace_records.tool_calls(trace.tool_calls))
    steps = list(trace_records.reasoning_steps(trace.reasoning_steps))
    return {
        "tool_calls": [
            {
                "name": call.tool_name,
                "arguments": excerpt.value(call.arguments),
                "result": excerpt.value(call.result),
                "success": call.success,
                "error": excerpt.text(call.error),
                "duration_ms": call.duration_ms,
            }
            for call in excerpt.first(calls)
        ],
        "number_of_calls": len(calls),
        "reasoning": [_step(step, excerpt) for step in excerpt.first(steps)],
        "number_of_steps": len(steps),
        "tasks": [
            replace(
                task,
                description=excerpt.text(task.description),
                error=excerpt.text(task.error),
                result=excerpt.value(task.result),
            )
            for task in excerpt.first(trace_records.task_events(trace.tasks))
        ],
        "state": excerpt.value(trace.state),
        "action": excerpt.value(trace.action),
        "details": excerpt.value(details),
    }


def _step(step: ReasoningStep, excerpt: Excerpt) -> ReasoningStep:
    insights, issues = (tuple(map(excerpt.text, excerpt.first(texts))) for texts in (step.insights, step.issues))
    return replace(step, content=excerpt.text(step.content), insights=insights, issues=issues)


HEAD, SLACK = 1200, 400
"""Characters of a text that are seen at once, and how many more are too few to be folded away."""
TRIES = 20
_FENCE = re.compile(r"^```.*$", re.MULTILINE)
_ASKED = ("task_id", "prompt", "question")
"""Parts of a task that the page shows elsewhere."""


class Folded(NamedTuple):
    head: str
    rest: str
    """Folded away."""
    is_code: bool = False


def episode_context(trace: Trace, excerpt: Excerpt) -> dict[str, Any] | None:
    """What ``rl/episode_parts.html`` reads; None for any other trace. Whatever was stored is read leniently. One query."""
    episode = trace.details.get("episode") if isinstance(trace.details, Mapping) else None
    if not isinstance(episode, Mapping) or not isinstance(episode.get("turns"), list):
        return None
    calls = dict(enumerate(trace_records.tool_calls(trace.tool_calls)))
    turns = [turn for turn in episode["turns"] if isinstance(turn, Mapping)]
    task = episode.get("task")
    tests = task.get("tests") if isinstance(task, Mapping) else None
    documents = [test for test in (tests if isinstance(tests, list) else ()) if isinstance(test, Mapping)]
    names = ("input", "output", "description")
    parts = task.items() if isinstance(task, Mapping) else ()
    return {
        "task_id": episode.get("task_id") or "",
        "environment": episode.get("environment") or "",
        "row": getattr(trace, "episode", None),
        "turns": [_turn(turn, calls, excerpt) for turn in excerpt.first(turns)],
        "number_of_turns": len(turns),
        "success": episode.get("success") is True,
        "reward": episode.get("reward"),
        "reason": excerpt.value(episode.get("reason")),
        "info": excerpt.value(episode.get("info")),
        "tests": [
            {name: excerpt.text(trace_records.text(test.get(name))) for name in names}
            for test in excerpt.first(documents)
        ],
        "task": _values(((name, part) for name, part in parts if part and name not in (*_ASKED, "tests")), excerpt),
        "tries": _other_tries(trace),
    }


def _turn(turn: Mapping[str, Any], calls: dict[int, ToolCall], excerpt: Excerpt) -> dict[str, Any]:
    """Takes its calls out of ``calls``: each was made in one turn only."""
    text, observation = (trace_records.text(turn.get(name)) for name in ("said", "observation"))
    numbers = turn.get("calls")
    listed = (number for number in (numbers if isinstance(numbers, list) else ()) if isinstance(number, int))
    turn_calls = [calls.pop(number) for number in listed if number in calls]
    results = (f"error: {call.error}" if call.error else trace_records.text(call.result) for call in turn_calls)
    read_results = observation.strip() == "\n\n".join(results).strip()
    pieces = excerpt.first(_FENCE.split(excerpt.text(read_action(text).text if turn_calls else text)))
    parts = (fold(piece.strip("\n"), is_code=n % 2 == 1) for n, piece in enumerate(pieces) if piece.strip())
    return {
        "said": [part for part in parts if part],
        "calls": [_call(call, excerpt) for call in excerpt.first(turn_calls)],
        "observation": None if read_results else fold(excerpt.text(observation)),
    }


def _call(call: ToolCall, excerpt: Excerpt) -> dict[str, Any]:
    arguments = call.arguments if isinstance(call.arguments, Mapping) else {"": call.arguments}
    return {
        "name": call.tool_name,
        "arguments": [(name, fold(text)) for name, text in _values(arguments.items(), excerpt)],
        "success": call.success,
        "result": fold(excerpt.value(call.result)),
        "error": fold(excerpt.text(call.error)),
        "duration_ms": call.duration_ms,
    }


def _values(items: Iterable[tuple[Any, Any]], excerpt: Excerpt) -> list[tuple[str, str]]:
    """Those that have one."""
    shown = ((trace_records.text(name), excerpt.value(value)) for name, value in excerpt.first(items))
    return [(name, text) for name, text in shown if text]


def fold(text: str, is_code: bool = False) -> Folded | None:
    """Cut at the end of a line, if one is near. None for an empty text."""
    if not text.strip():
        return None
    if len(text) <= HEAD + SLACK:
        return Folded(text, "", is_code)
    line = text.rfind("\n", HEAD - SLACK, HEAD) + 1
    return Folded(text[: line or HEAD], text[line or HEAD :], is_code)


def _other_tries(trace: Trace) -> list[Episode]:
    """The newest episodes of the same task in the same run, this one included; empty where there is no other."""
    row: Episode | None = getattr(trace, "episode", None)
    if row is None or row.run_id is None:
        return []
    same = Episode.objects.filter(run=row.run_id, split=row.split, task_id=row.task_id)
    tries = list(same.order_by("-step", "-id").only("trace", "step", "sample", "success", "reward")[:TRIES])
    return tries if len(tries) > 1 else []
