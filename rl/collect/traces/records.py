"""Stored traces as the records that rewards and datasets read, and records as a trace stores them.

What other systems stored is read leniently: an item that is not an object, or lacks its name, is left out."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from typing import Any, cast

from django.db.models import Prefetch, QuerySet

from rl.base.records import FeedbackRecord, Message, ReasoningStep, TaskEvent, ToolCall, TraceRecord
from rl.models import Feedback, Trace

_CURRENT = Feedback.objects.filter(is_current=True).exclude(kind=Feedback.Kind.RETRACTION).order_by("id")
_FEEDBACK = Prefetch("feedback", queryset=_CURRENT, to_attr="current_feedback")
_STATUSES = ("created", "completed", "failed")
FACTS = ("state", "action", "tokens_in", "tokens_out", "llm_calls", "cost", "duration_ms")
"""Columns of a trace that go in and out as they are; None says nothing."""
_COPIED = ("response", "prompt_key", *FACTS, "details")


def with_feedback(traces: QuerySet[Trace]) -> QuerySet[Trace]:
    """Two queries for what ``trace_record`` reads, however many traces there are."""
    return traces.select_related("agent", "label_proposal").prefetch_related(_FEEDBACK)


def trace_record(trace: Trace) -> TraceRecord:
    """``trace`` comes from ``with_feedback``; of any other the feedback and the proposed label are asked for here."""
    proposal = getattr(trace, "label_proposal", None)
    current = getattr(trace, "current_feedback", None)
    if current is None:
        current = _CURRENT.filter(trace=trace)
    return TraceRecord(
        id=str(trace.pk),
        agent=trace.agent.name,
        prompt=tuple(cast(list[Message], trace.prompt)),
        tool_calls=tuple(tool_calls(trace.tool_calls)),
        reasoning_steps=tuple(reasoning_steps(trace.reasoning_steps)),
        tasks=tuple(task_events(trace.tasks)),
        feedback=tuple(feedback_record(event) for event in current),
        proposed=(proposal.good, proposal.confidence) if proposal else None,
        **{name: getattr(trace, name) for name in _COPIED},
    )


def feedback_record(event: Feedback) -> FeedbackRecord:
    names = [column.name for column in fields(FeedbackRecord) if column.name != "tags"]
    return FeedbackRecord(tags=tuple(event.tags), **{name: getattr(event, name) for name in names})


def tool_calls(stored: object) -> Iterator[ToolCall]:
    """An item without ``success`` succeeded unless it names an error."""
    for item in _objects(stored):
        name = item.get("tool_name") or item.get("name")
        if isinstance(name, str):
            error = text(item.get("error"))
            yield ToolCall(
                tool_name=name,
                arguments=item.get("arguments"),
                result=item.get("result"),
                success=bool(item.get("success", not error)),
                duration_ms=_number(item.get("duration_ms")),
                error=error,
                timestamp=text(item.get("timestamp")),
            )


def reasoning_steps(stored: object) -> Iterator[ReasoningStep]:
    for item in _objects(stored):
        yield ReasoningStep(
            content=text(item.get("content")),
            step_type=text(item.get("step_type")),
            confidence=_number(item.get("confidence")),
            insights=_texts(item.get("insights")),
            issues=_texts(item.get("issues")),
        )


def task_events(stored: object) -> Iterator[TaskEvent]:
    for item in _objects(stored):
        if item.get("status") in _STATUSES:
            texts = {name: text(item.get(name)) for name in ("task_id", "type", "description", "timestamp", "error")}
            yield TaskEvent(status=item["status"], result=item.get("result"), **texts)


def as_json_items(records: Iterable[ToolCall | ReasoningStep | TaskEvent]) -> list[dict[str, Any]]:
    """As the JSON columns of a trace keep them."""
    return [asdict(record) for record in records]


def _objects(value: object) -> Iterator[Mapping[str, Any]]:
    yield from (item for item in (value if isinstance(value, (list, tuple)) else ()) if isinstance(item, Mapping))


def text(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else str(value)


def _texts(value: object) -> tuple[str, ...]:
    return tuple(text(item) for item in value) if isinstance(value, (list, tuple)) else ()


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
