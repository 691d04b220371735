"""One answer of which two ways in tell: the gateway and a client without ids, two instrumentations of one client, an agent's
span and those of its model."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from rl.collect.otlp import FoundAnswer, LooseSpan
from rl.collect.otlp.history import call_keys
from rl.collect.traces.imported import ImportedTrace
from rl.collect.traces.joining import NEWEST, OTEL, is_part, otel_of, scope_of, stored_run
from rl.collect.traces.rows import part_id
from rl.models import Agent, Feedback, RunPart, Trace, prompt_key
from rl.models.traces import GATEWAY

_APART: Final = timedelta(seconds=10)
"""Between the beginning of a call as the client tells it and as the gateway does, at most."""
_LONGEST_RUN: Final = timedelta(hours=1)
"""Between the beginning of a run and that of its last call."""


def as_gateway_knows_them(agent: Agent, answers: Sequence[FoundAnswer]) -> list[FoundAnswer]:
    """Those that the gateway has fetched, as far as it does not know better itself: of whom they are, how long they took,
    and where they belong. Where the client tells no id of the response, the gateway's answer is that with the same words or
    calls, at the same time."""
    named = _under_known_ids(agent, answers)
    ids = [answer.record.external_id for answer in named if answer.kind == "model"]
    own = Trace.objects.filter(agent=agent, source=GATEWAY, external_id__in=ids).order_by()
    fetched = set(own.values_list("external_id", flat=True))
    return [
        replace(answer, record=_as_seen(answer.record)) if answer.record.external_id in fetched else answer
        for answer in named
    ]


def has_no_id(answer: FoundAnswer) -> bool:
    return answer.kind == "model" and answer.record.external_id == answer.span_id


def _as_seen(record: ImportedTrace) -> ImportedTrace:
    unsaid: dict[str, Any] = dict.fromkeys(("tokens_in", "tokens_out", "duration_ms", "llm_calls"))
    details = {OTEL: record.details.get(OTEL, {})}
    return replace(record, session_id="", model_version="", reasoning_steps=(), details=details, **unsaid)


class _Fetched(NamedTuple):
    """An answer of the gateway's, which may be one of a run."""

    id: str
    at: datetime
    seen_as: str
    """The id of the span that has told of it; empty where none has."""


_Said = tuple[str, str | tuple[str, ...]]
"""The key of its prompt, and what it said or called."""


def _under_known_ids(agent: Agent, answers: Sequence[FoundAnswer]) -> list[FoundAnswer]:
    records = [answer.record for answer in answers if has_no_id(answer)]
    times = [record.occurred_at for record in records if record.occurred_at]
    if not times:
        return list(answers)
    keys = {prompt_key(record.prompt) for record in records}
    asked = Trace.objects.filter(agent=agent, source=GATEWAY, prompt_key__in=keys)
    here: defaultdict[_Said, list[_Fetched]] = defaultdict(list)
    for trace in asked.filter(occurred_at__range=(min(times) - _LONGEST_RUN, max(times) + _APART)).order_by():
        for key, fetched in _read_answers(trace):
            here[key].append(fetched)
    return [_under_known_id(answer, here) if has_no_id(answer) else answer for answer in answers]


def _read_answers(trace: Trace) -> Iterator[tuple[_Said, _Fetched]]:
    own = {"external_id": trace.external_id, "at": trace.occurred_at.isoformat(), "asked": ()}
    run = trace.details.get("run")
    parts = (run.get("parts") if isinstance(run, dict) else None) or [own]
    span_id = otel_of(trace).get("span_id", "")
    for part in parts:
        seen_as = span_id if part is parts[-1] else ""
        key = (trace.prompt_key, tuple(part.get("asked", ())) or trace.response)
        yield key, _Fetched(part["external_id"] or "", datetime.fromisoformat(part["at"]), seen_as)


def _under_known_id(answer: FoundAnswer, here: dict[_Said, list[_Fetched]]) -> FoundAnswer:
    record = answer.record
    same = here.get(_said(answer), [])
    if (began := record.occurred_at) is None:
        return answer
    free = [fetched for fetched in same if fetched.seen_as in ("", answer.span_id)]
    nearest = min(free, key=lambda fetched: abs(fetched.at - began), default=None)
    if nearest is None or abs(nearest.at - began) > _APART:
        return answer
    same.remove(nearest)
    return replace(answer, record=replace(record, external_id=nearest.id or answer.span_id))


class _Seen(NamedTuple):
    """A call of a model as one instrumentation has told it."""

    at: datetime
    scope: str
    id: str
    trace: UUID | None = None
    """None: it has come just now."""


def without_doubles(agent: Agent, answers: Sequence[FoundAnswer]) -> tuple[list[FoundAnswer], list[FoundAnswer]]:
    """The answers to be stored, and those that another instrumentation tells too: the same question and the same words or
    calls, at the same time, under another scope. The one that knows the id of the response is stored. Where both know it,
    what the second tells is added, as with any answer that comes again."""
    here = _seen_before(agent, answers)
    kept: list[FoundAnswer] = []
    doubles: list[FoundAnswer] = []
    for answer in sorted(answers, key=has_no_id):
        if _twin(answer, here):
            doubles.append(answer)
        else:
            kept.append(answer)
            if answer.record.occurred_at:
                here[_said(answer)].append(_Seen(answer.record.occurred_at, _scope(answer), answer.record.external_id))
    return kept, doubles


def name_doubles(agent: Agent, doubles: Sequence[FoundAnswer]) -> None:
    """Lets what was stored once be rated by the ids of both."""
    here = _seen_before(agent, doubles)
    twins = [(answer, twin.trace) for answer in doubles if (twin := _twin(answer, here)) and twin.trace]
    names = {
        part_id(agent.pk, name): trace
        for answer, trace in twins
        for name in (answer.record.external_id, answer.span_id, answer.trace_id)
    }
    rows = [RunPart(id=name, trace_id=trace) for name, trace in names.items()]
    RunPart.objects.bulk_create(rows, update_conflicts=True, unique_fields=["id"], update_fields=["trace"])


def _twin(answer: FoundAnswer, here: Mapping[_Said, Sequence[_Seen]]) -> _Seen | None:
    began, scope = answer.record.occurred_at, _scope(answer)
    known = "" if is_part(answer) else answer.record.external_id  # its own words come again, and perhaps more
    others = [seen for seen in here.get(_said(answer), ()) if seen.scope != scope and seen.id != known] if began else []
    nearest = min(others, key=lambda seen: abs(seen.at - began), default=None) if began else None
    return nearest if nearest and began and abs(nearest.at - began) <= _APART else None


def _seen_before(agent: Agent, answers: Sequence[FoundAnswer]) -> defaultdict[_Said, list[_Seen]]:
    here: defaultdict[_Said, list[_Seen]] = defaultdict(list)
    times = [answer.record.occurred_at for answer in answers if answer.record.occurred_at]
    if not times:
        return here
    keys = {prompt_key(answer.record.prompt) for answer in answers}
    before = _LONGEST_RUN if any(map(is_part, answers)) else _APART
    near = Trace.objects.filter(agent=agent, prompt_key__in=keys, details__otel__kind="model")
    newest = near.filter(occurred_at__range=(min(times) - before, max(times) + _APART)).order_by("-occurred_at")
    for trace in newest[:NEWEST]:
        own = {**otel_of(trace), "at": trace.occurred_at.isoformat(), "external_id": trace.external_id}
        run = stored_run(trace)
        for part in run.parts if run else [own]:
            key = (trace.prompt_key, tuple(part.get("asked", ())) or trace.response)
            here[key].append(
                _Seen(datetime.fromisoformat(part["at"]), part.get("scope", ""), part["external_id"], trace.pk)
            )
    return here


def _said(answer: FoundAnswer) -> _Said:
    return prompt_key(answer.record.prompt), tuple(call_keys([answer.turn])) or answer.record.response


def _scope(answer: FoundAnswer) -> str:
    return scope_of(answer.record.details)


def give_way(agent: Agent, trace_ids: Iterable[str]) -> list[LooseSpan]:
    """Removes the answers of agents whose models' calls have come later. What was said of them is said of the last call.
    Answers of other words that a person has judged stay, and what is in a training set. Gives the tool calls that they had.
    """
    of_traces = Trace.objects.filter(agent=agent, otel_trace_id__in=set(trace_ids))
    agents = list(of_traces.filter(details__otel__kind="agent", memberships=None).order_by("pk"))
    if not agents:
        return []
    calls = of_traces.filter(details__otel__kind="model").order_by("occurred_at")
    last = {trace.otel_trace_id: trace for trace in calls}
    left: list[LooseSpan] = []
    for trace in agents:
        call = last.get(trace.otel_trace_id)
        if call and (
            call.response == trace.response
            or not (trace.feedback.exclude(rater__startswith="system:").exists() or trace.compared.exists())
        ):
            # Not a rating of whoever has rated the call already.
            raters = call.feedback.filter(kind=Feedback.Kind.RATING, is_current=True).values("rater")
            moved = trace.feedback.exclude(kind=Feedback.Kind.RATING, rater__in=raters).update(trace=call)
            moved += trace.compared.update(other_trace=call)
            if moved:
                Trace.objects.filter(pk=call.pk).update(reward_pending=True)
            known: dict[str, Any] = {"agent": agent.name, "trace_id": trace.otel_trace_id or ""}
            items: list[Any] = [item for item in trace.tool_calls if isinstance(item, dict) and "span_id" in item]
            left += [LooseSpan(**known, span_id=item["span_id"], tool_call=item) for item in items]
            trace.delete()
    return left
