"""Stores what OpenTelemetry brings of one agent. Spans come in any order, in any batch, and some come twice.

Whenever something new of an OpenTelemetry trace arrives, its tool calls are dealt out to its answers anew, so that the order
of arrival does not matter. What has no answer yet waits as PendingSpan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from rl.collect.feedback import events
from rl.collect.feedback import write as feedback
from rl.collect.feedback.rating_conflicts import agreeing_with_last
from rl.collect.otlp import FoundAnswer, LooseSpan
from rl.collect.otlp.attribution import Asker, asker_of, judged_by
from rl.collect.otlp.mapping import by_span
from rl.collect.traces.imported import Rejected
from rl.collect.traces.rows import stored, take_turns
from rl.collect.traces.write import TraceStore
from rl.models import Agent, Feedback, PendingSpan, Trace

SOURCE = "otel"
CHUNK = 200
"""Spans per transaction."""
MOST_ANSWERS = 2000
"""Newest answers that the tool calls of a chunk are dealt out to."""
PATIENCE = timedelta(days=1)
Item = dict[str, Any]


def store(agent: Agent, answers: Sequence[FoundAnswer], loose: Sequence[LooseSpan]) -> list[Rejected]:
    """What could not be stored. Raises RunConflict when others keep storing the same."""
    refused: list[Rejected] = []
    for kind in ("model", "agent"):  # an agent's span counts only where the calls of its model are not known
        for chunk in _chunks([one for one in answers if one.kind == kind]):
            with transaction.atomic():
                take_turns([agent.pk])  # an answer and its tool call may come at once: the later one sees the earlier
                refused += _store_answers(agent, chunk if kind == "model" else _without_model_calls(agent, chunk))
                _settle(agent, {one.trace_id for one in chunk}, [])
    for chunk in _chunks(loose):
        with transaction.atomic():
            take_turns([agent.pk])
            _settle(agent, {one.trace_id for one in chunk}, chunk)
    return refused


def forget_pending() -> int:
    """Gives up on what has waited for more than a day; how many spans that were."""
    deleted, _ = PendingSpan.objects.filter(received_at__lt=timezone.now() - PATIENCE).delete()
    return deleted


def _chunks(spans: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (spans[at : at + CHUNK] for at in range(0, len(spans), CHUNK))


# --- answers -----------------------------------------------------------------------------------------------------------


def _store_answers(agent: Agent, found: Sequence[FoundAnswer]) -> list[Rejected]:
    traces, _ = _taken(agent, [one.record for one in found])
    again = [at for at, trace in enumerate(traces) if trace is None]
    second, refused = _taken(agent, [by_span(found[at].record, found[at].span_id) for at in again])
    for at, trace in zip(again, second, strict=True):
        traces[at] = trace
    unmarked = []
    for one, trace in zip(found, traces, strict=True):
        if trace is not None and trace.otel_trace_id is None:
            trace.otel_trace_id = one.trace_id
            unmarked.append(trace)
    Trace.objects.bulk_update(unmarked, ["otel_trace_id"], batch_size=100)
    return refused


def _taken(agent: Agent, records: Sequence[Any]) -> tuple[list[Trace | None], list[Rejected]]:
    taker = TraceStore(SOURCE, agent=agent)
    traces = taker.take(records) if records else []
    skipped = taker.report.traces
    refused = [
        Rejected(skipped.examples[reason][0], reason) for reason, count in skipped.skipped.items() for _ in range(count)
    ]
    return traces, refused


def _without_model_calls(agent: Agent, found: Sequence[FoundAnswer]) -> list[FoundAnswer]:
    trace_ids = {one.trace_id for one in found}
    here = Trace.objects.filter(agent=agent, otel_trace_id__in=trace_ids, details__otel__kind="model").order_by()
    known = set(here.values_list("otel_trace_id", flat=True).distinct())
    return [one for one in found if one.trace_id not in known]


# --- tool calls and evaluations ----------------------------------------------------------------------------------------


def _settle(agent: Agent, trace_ids: set[str], arrived: Sequence[LooseSpan]) -> None:
    """Puts everything that is known of these OpenTelemetry traces where it belongs; the rest waits."""
    waiting = list(PendingSpan.objects.filter(agent=agent, otel_trace_id__in=trace_ids))
    spans = {(one.otel_trace_id, one.span_id): _loose(agent, one) for one in waiting}
    spans |= {(one.trace_id, one.span_id): one for one in arrived}
    answers = _answers(agent, trace_ids)
    if not spans and not any(map(_dealt, answers)):
        return
    homeless = _deal_tool_calls(answers, spans.values()) | _say_evaluations(agent, answers, spans.values())
    PendingSpan.objects.filter(
        pk__in=[one.pk for one in waiting if (one.otel_trace_id, one.span_id) not in homeless]
    ).delete()
    here = {(one.otel_trace_id, one.span_id) for one in waiting}
    new = [_pending(agent, spans[key]) for key in homeless if key not in here]
    PendingSpan.objects.bulk_create(new, ignore_conflicts=True)


def _answers(agent: Agent, trace_ids: set[str]) -> list[Trace]:
    return list(
        Trace.objects.filter(agent=agent, otel_trace_id__in=trace_ids)
        .only("agent_id", "otel_trace_id", "external_id", "details", "tool_calls", "occurred_at")
        .order_by("-occurred_at")[:MOST_ANSWERS]
    )


def _deal_tool_calls(answers: Sequence[Trace], spans: Iterable[LooseSpan]) -> set[tuple[str, str]]:
    """Trace and span ids of the calls that nobody asked for."""
    calls = {(trace.otel_trace_id or "", item["span_id"]): item for trace in answers for item in _dealt(trace)}
    calls |= {(one.trace_id, one.span_id): one.tool_call for one in spans if one.tool_call}
    askers = _askers(answers)
    dealt: defaultdict[Any, list[Item]] = defaultdict(list)
    homeless = set()
    for key, call in calls.items():
        if asker := asker_of(call, askers[key[0]]):
            dealt[asker.key].append(call)
        else:
            homeless.add(key)
    _write_tool_calls(answers, dealt)
    return homeless


def _write_tool_calls(answers: Sequence[Trace], dealt: dict[Any, list[Item]]) -> None:
    changed = []
    for trace in answers:
        others = [item for item in _items(trace) if "span_id" not in item]
        calls = [*others, *sorted(dealt.get(trace.pk, ()), key=lambda item: (item["timestamp"], item["span_id"]))]
        if calls != trace.tool_calls:
            trace.tool_calls, trace.reward_pending = calls, True
            changed.append(trace)
    Trace.objects.bulk_update(changed, ["tool_calls", "reward_pending"], batch_size=100)


def _say_evaluations(agent: Agent, answers: Sequence[Trace], spans: Iterable[LooseSpan]) -> set[tuple[str, str]]:
    """Trace and span ids of the spans with evaluations of answers that are not here."""
    askers, traces = _askers(answers), {trace.pk: trace for trace in answers}
    homeless: set[tuple[str, str]] = set()
    said: list[Feedback] = []
    for one in spans:
        for evaluation in one.evaluations:
            judged = judged_by(one.judges, one.of_agent, askers[one.trace_id])
            trace = traces[judged.key] if judged else _by_response(agent, evaluation["response_id"])
            if trace is None:
                homeless.add((one.trace_id, one.span_id))
            else:
                said.append(_event(trace, evaluation))
    feedback.record(agreeing_with_last([event for event in said if event.kind == Feedback.Kind.RATING]))
    feedback.append([event for event in said if event.kind == Feedback.Kind.OUTCOME])
    return homeless


def _by_response(agent: Agent, response_id: str) -> Trace | None:
    key = (agent.pk, response_id)
    return stored([key]).get(key) if response_id else None


def _event(trace: Trace, evaluation: Item) -> Feedback:
    common = {name: evaluation[name] for name in ("rater", "tags", "notes", "value")}
    at = evaluation["rated_at"]
    common |= {"source": SOURCE, "rated_at": datetime.fromisoformat(at) if at else trace.occurred_at}
    if evaluation["kind"] == "rating":
        return events.rating(trace, scale=evaluation["scale"], **common)
    return events.observation(trace, metric=evaluation["metric"], **common)


# --- rows and records --------------------------------------------------------------------------------------------------


def _askers(answers: Iterable[Trace]) -> defaultdict[str, list[Asker[Any]]]:
    """By OpenTelemetry trace."""
    found: defaultdict[str, list[Asker[Any]]] = defaultdict(list)
    for trace in answers:
        about = trace.details.get("otel")
        about = about if isinstance(about, dict) else {}
        requested = tuple(one for one in about.get("requested", ()) if isinstance(one, dict))
        asker = Asker(trace.pk, str(about.get("span_id", "")), trace.occurred_at, requested)
        found[trace.otel_trace_id or ""].append(asker)
    return found


def _items(trace: Trace) -> list[Item]:
    return [item for item in trace.tool_calls if isinstance(item, dict)]


def _dealt(trace: Trace) -> list[Item]:
    """The tool calls that came as spans; others were stored with the answer."""
    return [item for item in _items(trace) if "span_id" in item]


def _loose(agent: Agent, row: PendingSpan) -> LooseSpan:
    return LooseSpan(agent=agent.name, trace_id=row.otel_trace_id, span_id=row.span_id, **row.payload)


def _pending(agent: Agent, span: LooseSpan) -> PendingSpan:
    payload = {name: getattr(span, name) for name in ("tool_call", "evaluations", "judges", "of_agent")}
    return PendingSpan(agent=agent, otel_trace_id=span.trace_id, span_id=span.span_id, payload=payload)
