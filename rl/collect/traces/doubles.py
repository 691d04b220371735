"""One answer of which two ways in tell: the gateway and a client without ids, an agent's span and those of its model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from rl.collect.otlp import FoundAnswer, LooseSpan
from rl.collect.traces.joining import otel_of
from rl.models import Agent, Feedback, Trace, prompt_key
from rl.models.traces import GATEWAY

_APART: Final = timedelta(seconds=10)
"""Between the beginning of a call as the client tells it and as the gateway does, at most."""


def as_gateway_knows_them(agent: Agent, answers: Sequence[FoundAnswer]) -> list[FoundAnswer]:
    """Those whose client tells no id of the response under the gateway's: with the same words, at the same time."""
    records = [answer.record for answer in answers if _has_no_id(answer)]
    times = [record.occurred_at for record in records if record.occurred_at]
    if not times:
        return list(answers)
    at_that_time = (min(times) - _APART, max(times) + _APART)
    keys = {prompt_key(record.prompt) for record in records}
    asked = Trace.objects.filter(agent=agent, source=GATEWAY, prompt_key__in=keys)
    here: defaultdict[tuple[str, str], list[Trace]] = defaultdict(list)
    for trace in asked.filter(occurred_at__range=at_that_time).order_by():
        here[trace.prompt_key, trace.response].append(trace)
    return [_under_known_id(answer, here) if _has_no_id(answer) else answer for answer in answers]


def _has_no_id(answer: FoundAnswer) -> bool:
    return answer.kind == "model" and answer.record.external_id == answer.span_id


def _under_known_id(answer: FoundAnswer, here: dict[tuple[str, str], list[Trace]]) -> FoundAnswer:
    record = answer.record
    same = here.get((prompt_key(record.prompt), record.response), [])
    if (began := record.occurred_at) is None:
        return answer
    free = [trace for trace in same if otel_of(trace).get("span_id", "") in ("", answer.span_id)]
    nearest = min(free, key=lambda trace: abs(trace.occurred_at - began), default=None)
    if nearest is None or abs(nearest.occurred_at - began) > _APART:
        return answer
    same.remove(nearest)
    return replace(answer, record=replace(record, external_id=nearest.external_id or answer.span_id))


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
