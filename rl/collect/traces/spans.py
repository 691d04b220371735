"""Stores what OpenTelemetry brings of one agent. Spans come in any order, in any batch, and some come twice.

Whenever something new of an OpenTelemetry trace arrives, its tool calls are dealt out to its answers anew, so that the order
of arrival does not matter. What has no answer yet waits as PendingSpan."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from rl.base.records import Message
from rl.collect.feedback import events, write
from rl.collect.feedback.imported_feedback import agreeing_with_last
from rl.collect.otlp import FoundAnswer, LooseSpan, history
from rl.collect.otlp.mapping import by_span
from rl.collect.traces import joining
from rl.collect.traces.doubles import as_gateway_knows_them, give_way, name_doubles, without_doubles
from rl.collect.traces.imported import Rejected
from rl.collect.traces.joining import Asker, asker_of, judged_by
from rl.collect.traces.rows import chunks, find_traces, part_id, run_ids, same_words, take_turns
from rl.collect.traces.write import TraceStore
from rl.models import Agent, Feedback, PendingSpan, RunPart, Trace
from rl.models.traces import GATEWAY

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
        for chunk in chunks([answer for answer in answers if answer.kind == kind], CHUNK):
            with transaction.atomic():
                take_turns([agent.pk])  # an answer and its tool call may come at once: the later one sees the earlier
                trace_ids = {answer.trace_id for answer in chunk}
                kept, doubles = without_doubles(agent, chunk) if kind == "model" else (chunk, [])
                kept = as_gateway_knows_them(agent, kept)
                runs, others = _join_runs(agent, kept if kind == "model" else _without_model_calls(agent, kept))
                refused += _store_answers(agent, others)
                name_doubles(agent, doubles)
                trace_ids |= runs
                _settle(agent, trace_ids, give_way(agent, trace_ids))
    for spans in chunks(loose, CHUNK):
        with transaction.atomic():
            take_turns([agent.pk])
            _settle(agent, {span.trace_id for span in spans}, spans)
    return refused


def forget_pending() -> int:
    """Gives up on what has waited for more than a day; how many spans that were."""
    deleted, _ = PendingSpan.objects.filter(received_at__lt=timezone.now() - PATIENCE).delete()
    return deleted


def _store_answers(agent: Agent, answers: Sequence[FoundAnswer]) -> list[Rejected]:
    traces, _ = _store_records(agent, [answer.record for answer in answers])
    again = [at for at, trace in enumerate(traces) if trace is None]
    second, refused = _store_records(agent, [by_span(answers[at].record, answers[at].span_id) for at in again])
    for at, trace in zip(again, second, strict=True):
        traces[at] = trace
    unmarked = []
    for answer, trace in zip(answers, traces, strict=True):
        if trace is not None and trace.otel_trace_id is None:
            trace.otel_trace_id = answer.trace_id
            unmarked.append(trace)
    Trace.objects.bulk_update(unmarked, ["otel_trace_id"], batch_size=100)
    return refused


def _join_runs(agent: Agent, arrived: Sequence[FoundAnswer]) -> tuple[set[str], list[FoundAnswer]]:
    """Puts calls of the model into the runs that they belong to. Gives the OpenTelemetry traces of the stored runs that have
    grown, and what is new, each run as one answer. Calls that another way in has brought stay answers of their own."""
    known = [answer for answer in arrived if not joining.is_part(answer)]
    parts = [answer for answer in arrived if joining.is_part(answer)]
    if not parts:
        return set(), known
    runs = joining.stored_runs(agent, parts)
    here = find_traces((agent.pk, part.record.external_id) for part in parts)
    within = run_ids(part.record.external_id for part in parts)  # of the gateway
    taken = set(here)
    for answer in sorted(parts, key=lambda answer: (joining.part_of(answer)["at"], answer.span_id)):
        run, key = joining.find(runs, answer), (agent.pk, answer.record.external_id)
        if (run and run.has(answer)) or answer.record.external_id in within:
            continue
        if key in here and (prompt := _same_prompt(here[key], answer)):
            known.append(replace(answer, record=replace(answer.record, prompt=prompt)))
        elif run is None:
            runs.append(joining.begin(answer))
        else:
            run.add(replace(answer, record=by_span(answer.record, answer.span_id)) if key in taken else answer)
        taken.add(key)
    stored = [joining.update(run) for run in runs if run.trace and run.changed]
    Trace.objects.bulk_update(stored, joining.COLUMNS, batch_size=100)
    new = [joining.as_answer(run) for run in runs if run.trace is None]
    return {trace.otel_trace_id or "" for trace in stored}, [*known, *new]


def _same_prompt(here: Trace, answer: FoundAnswer) -> tuple[Message, ...] | None:
    """The prompt under which the same answer is here; the gateway joins runs too."""
    prompts = (answer.history.whole, answer.history.prompt) if here.source == GATEWAY else (answer.history.whole,)
    return next((prompt for prompt in prompts if same_words(here, prompt, answer.record.response)), None)


def _store_records(agent: Agent, records: Sequence[Any]) -> tuple[list[Trace | None], list[Rejected]]:
    trace_store = TraceStore(SOURCE, agent=agent)
    traces = trace_store.take(records) if records else []
    skipped = trace_store.report.traces
    refused = [
        Rejected(skipped.examples[reason][0], reason) for reason, count in skipped.skipped.items() for _ in range(count)
    ]
    return traces, refused


def _without_model_calls(agent: Agent, answers: Sequence[FoundAnswer]) -> list[FoundAnswer]:
    trace_ids = {answer.trace_id for answer in answers}
    here = Trace.objects.filter(agent=agent, otel_trace_id__in=trace_ids, details__otel__kind="model").order_by()
    known = set(here.values_list("otel_trace_id", flat=True).distinct())
    return [answer for answer in answers if answer.trace_id not in known]


def _settle(agent: Agent, trace_ids: set[str], arrived: Sequence[LooseSpan]) -> None:
    """Puts everything that is known of these OpenTelemetry traces where it belongs; the rest waits."""
    waiting = list(PendingSpan.objects.filter(agent=agent, otel_trace_id__in=trace_ids))
    spans = {
        (span.otel_trace_id, span.span_id): LooseSpan(
            agent=agent.name, trace_id=span.otel_trace_id, span_id=span.span_id, **span.payload
        )
        for span in waiting
    }
    spans |= {(span.trace_id, span.span_id): span for span in arrived}
    answers = list(
        Trace.objects.filter(agent=agent, otel_trace_id__in=trace_ids)
        .only("agent_id", "otel_trace_id", "external_id", "prompt", "details", "tool_calls", "occurred_at")
        .order_by("-occurred_at")[:MOST_ANSWERS]
    )
    if not spans and not any(_dealt_calls(trace) or trace.details.get("messages") for trace in answers):
        return
    _name_parts(agent, answers)
    homeless = _deal_tool_calls(answers, spans.values()) | _store_evaluations(agent, answers, spans.values())
    PendingSpan.objects.filter(
        pk__in=[span.pk for span in waiting if (span.otel_trace_id, span.span_id) not in homeless]
    ).delete()
    here = {(span.otel_trace_id, span.span_id) for span in waiting}
    names = ("tool_call", "evaluations", "judges", "of_agent")
    new = [
        PendingSpan(
            agent=agent, otel_trace_id=key[0], span_id=key[1], payload={n: getattr(spans[key], n) for n in names}
        )
        for key in homeless - here
    ]
    PendingSpan.objects.bulk_create(new, ignore_conflicts=True)


def _name_parts(agent: Agent, answers: Iterable[Trace]) -> None:
    """Lets earlier calls of runs be rated by their own ids."""
    parts = (
        RunPart(id=part_id(agent.pk, part["external_id"]), trace=trace)
        for trace in answers
        for part in joining.otel_of(trace).get("parts", ())
        if part["external_id"] != trace.external_id
    )
    rows = {row.pk: row for row in parts}.values()
    RunPart.objects.bulk_create(rows, update_conflicts=True, unique_fields=["id"], update_fields=["trace"])


def _deal_tool_calls(answers: Sequence[Trace], spans: Iterable[LooseSpan]) -> set[tuple[str, str]]:
    """Trace and span ids of the calls that nobody asked for."""
    calls = {(trace.otel_trace_id or "", item["span_id"]): item for trace in answers for item in _dealt_calls(trace)}
    calls |= {(span.trace_id, span.span_id): span.tool_call for span in spans if span.tool_call}
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
        others = [item for item in _items(trace) if "span_id" not in item and "call_id" not in item]
        of_spans = sorted(dealt.get(trace.pk, ()), key=lambda item: (item["timestamp"], item["span_id"]))
        calls = [*others, *_with_messages(trace, of_spans)]
        if calls != trace.tool_calls:
            trace.tool_calls, trace.reward_pending = calls, True
            changed.append(trace)
    Trace.objects.bulk_update(changed, ["tool_calls", "reward_pending"], batch_size=100)


def _with_messages(trace: Trace, of_spans: list[Item]) -> list[Item]:
    """The calls whose results the model was told, in their order, with what the tools' own spans know of them: the model
    says with which arguments. Behind them the calls that spans alone tell of."""
    calls: list[Item] = []
    left = list(of_spans)
    for call in _told_calls(trace):
        same = [span for span in left if _is_of(span, call)]
        if same:
            left.remove(same[0])
            call = {**same[0], "arguments": call["arguments"], "call_id": call["call_id"]}
        calls.append(call)
    told_twice = ("tool_name", "arguments", "result")  # by two instrumentations
    return [*calls, *(span for span in left if not any(all(span[n] == call[n] for n in told_twice) for call in calls))]


def _is_of(span: Item, call: Item) -> bool:
    if span.get("call_id") and call["call_id"]:
        return bool(span["call_id"] == call["call_id"])
    return bool(span["tool_name"] == call["tool_name"])


def _told_calls(trace: Trace) -> list[Item]:
    messages = trace.details.get("messages")
    if trace.details.get("otel") is None or not isinstance(messages, list):
        return []
    return list(history.tool_calls(messages[len(trace.prompt) :]))


def _store_evaluations(agent: Agent, answers: Sequence[Trace], spans: Iterable[LooseSpan]) -> set[tuple[str, str]]:
    """Trace and span ids of the spans with evaluations of answers that are not here."""
    askers, traces = _askers(answers), {trace.pk: trace for trace in answers}
    homeless: set[tuple[str, str]] = set()
    evaluation_events: list[Feedback] = []
    for span in spans:
        for evaluation in span.evaluations:
            judged = judged_by(span.judges, span.of_agent, askers[span.trace_id])
            name = evaluation["response_id"] or span.judges or span.trace_id
            trace = traces[judged.key] if judged else _by_response(agent, name, answers)
            if trace is None:
                homeless.add((span.trace_id, span.span_id))
            else:
                evaluation_events.append(_event(trace, evaluation))
    write.record(agreeing_with_last([event for event in evaluation_events if event.kind == Feedback.Kind.RATING]))
    write.append([event for event in evaluation_events if event.kind == Feedback.Kind.OUTCOME])
    return homeless


def _by_response(agent: Agent, response_id: str, answers: Iterable[Trace]) -> Trace | None:
    """The answer with this id, or the run in which a call of the model had it."""
    key = (agent.pk, response_id)
    runs = (
        trace
        for trace in answers
        if any(part["external_id"] == response_id for part in joining.otel_of(trace).get("parts", ()))
    )
    if not response_id:
        return None
    trace = find_traces([key]).get(key) or next(runs, None)
    return trace or Trace.objects.filter(agent=agent, run_parts=part_id(agent.pk, response_id)).first()


def _event(trace: Trace, evaluation: Item) -> Feedback:
    common = {name: evaluation[name] for name in ("rater", "tags", "notes", "value")}
    at = evaluation["rated_at"]
    common |= {"source": SOURCE, "rated_at": datetime.fromisoformat(at) if at else trace.occurred_at}
    if evaluation["kind"] == "rating":
        return events.rating(trace, scale=evaluation["scale"], **common)
    return events.observation(trace, metric=evaluation["metric"], **common)


def _askers(answers: Iterable[Trace]) -> defaultdict[str, list[Asker]]:
    """By OpenTelemetry trace."""
    askers: defaultdict[str, list[Asker]] = defaultdict(list)
    for trace in answers:
        otel = joining.otel_of(trace)
        requested = tuple(call for call in otel.get("requested", ()) if isinstance(call, dict))
        requested += tuple({"id": call["call_id"], "name": call["tool_name"]} for call in _told_calls(trace))
        parts = otel.get("parts") or [{**otel, "at": trace.occurred_at.isoformat(), "trace_id": trace.otel_trace_id}]
        for part in parts:
            asked = (*requested, *({"id": key} for key in part.get("asked", ())))
            asker = Asker(trace.pk, str(part.get("span_id", "")), datetime.fromisoformat(part["at"]), asked)
            askers[part["trace_id"] or ""].append(asker)
    return askers


def _items(trace: Trace) -> list[Item]:
    return [item for item in trace.tool_calls if isinstance(item, dict)]


def _dealt_calls(trace: Trace) -> list[Item]:
    """The tool calls that came as spans; others were stored with the answer."""
    return [item for item in _items(trace) if "span_id" in item]
