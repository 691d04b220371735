"""Spans to answers, and to what belongs to an answer that may arrive in another batch: tool calls and evaluations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from rl.base.errors import UsageError
from rl.base.records import ReasoningStep, ToolCall
from rl.base.slugs import check_slug
from rl.collect.limits import MAX_ID_LENGTH
from rl.collect.otlp import gen_ai, openinference
from rl.collect.otlp.evaluations import evaluations
from rl.collect.otlp.spans import Answer, Span, ToolRun, moment
from rl.collect.otlp.values import bounded, kept, text
from rl.collect.storable import unstorable
from rl.collect.traces.imported import ImportedFeedback, ImportedTrace, Rejected

NO_AGENT = "nothing says whose answer it is: set OTEL_SERVICE_NAME to the name of the agent"
NO_CONTENT = (
    "carried no messages and were left out: set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY, "
    "or what switches messages on in your client"
)
_STORED_ELSEWHERE = (*gen_ai.CONTENT, *openinference.CONTENT)


@dataclass(frozen=True, slots=True)
class FoundAnswer:
    agent: str
    trace_id: str
    span_id: str
    kind: Literal["model", "agent"]
    record: ImportedTrace


@dataclass(frozen=True, slots=True, kw_only=True)
class LooseSpan:
    """A tool call, or evaluations: what waits until the answer that it belongs to is here. Plain JSON inside."""

    agent: str
    trace_id: str
    span_id: str
    tool_call: dict[str, Any] | None = None
    """A stored tool call, with ``call_id`` and ``span_id``."""
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    """ImportedFeedback as objects, with ``response_id``."""
    judges: str = ""
    """Of evaluations: the span id of the answer, or of the agent whose last answer is meant."""
    of_agent: bool = False


@dataclass(slots=True)
class Mapped:
    answers: list[FoundAnswer] = field(default_factory=list)
    loose: list[LooseSpan] = field(default_factory=list)
    refused: list[Rejected] = field(default_factory=list)
    without_content: int = 0
    """Answers whose texts the client did not send."""


def map_spans(spans: Iterable[Span | Rejected], *, agent: str = "") -> Mapped:
    """``agent`` owns everything; if empty, each span says itself whose it is. Spans of other kinds are passed over."""
    mapped = Mapped()
    for span in spans:
        if isinstance(span, Rejected):
            mapped.refused.append(span)
            continue
        try:
            _take(span, agent, mapped)
        except UsageError as error:
            mapped.refused.append(Rejected(span.where, str(error)))
        except RecursionError:
            mapped.refused.append(Rejected(span.where, "it is nested too deeply"))
    return mapped


def agent_name(span: Span) -> str:
    """The service's name, else that of the agent, as a name that an agent can have; empty where there is none."""
    service = text(span.resource, "service.name")
    known = service if not service.startswith("unknown_service") else ""
    return slug(known or text({**span.attributes, **span.resource}, "gen_ai.agent.name", "agent.name"))


def slug(name: str) -> str:
    """``My service/1`` as ``My-service-1``; empty where nothing is left."""
    candidate = re.sub(r"\.{2,}", ".", re.sub(r"[^A-Za-z0-9._-]+", "-", name)).strip("-._")[:64].rstrip("-._")
    try:
        return check_slug(candidate)
    except UsageError:
        return ""


def _take(span: Span, agent: str, mapped: Mapped) -> None:
    found = gen_ai.read(span) or openinference.read(span)
    judged = list(evaluations(span))
    empty = isinstance(found, Answer) and not (found.prompt and found.response)
    if isinstance(found, Answer) and found.kind == "model" and empty:
        mapped.without_content += 1
    if not judged and (found is None or empty):
        return
    owner = agent or agent_name(span)
    if not owner:
        raise UsageError(NO_AGENT)
    if isinstance(found, Answer) and not empty:
        mapped.answers.append(FoundAnswer(owner, span.trace_id, span.span_id, found.kind, _record(span, found)))
    if isinstance(found, ToolRun) or judged:
        mapped.loose.append(_checked(_loose(span, owner, found, judged)))


def _record(span: Span, found: Answer) -> ImportedTrace:
    response_id = found.response_id if len(found.response_id) <= MAX_ID_LENGTH else ""
    return ImportedTrace(
        where=span.where,
        external_id=response_id or span.span_id,
        prompt=found.prompt,
        response=found.response,
        session_id=(found.session_id or span.trace_id)[:MAX_ID_LENGTH],
        model_version=found.model[:MAX_ID_LENGTH],
        reasoning_steps=tuple(ReasoningStep(words, "reasoning") for words in found.reasoning if words),
        tokens_in=found.tokens_in,
        tokens_out=found.tokens_out,
        llm_calls=1 if found.kind == "model" else None,
        cost=found.cost,
        duration_ms=span.duration_ms,
        details={"otel": _details(span, found)},
        occurred_at=moment(span.start),
    )


def by_span(record: ImportedTrace, span_id: str) -> ImportedTrace:
    """The same answer under the id of its span: some servers give the same response id to several answers."""
    return replace(record, external_id=span_id)


def _details(span: Span, found: Answer) -> dict[str, Any]:
    known = {
        "kind": found.kind,
        "trace_id": span.trace_id,
        "span_id": span.span_id,
        "parent_span_id": span.parent_id,
        "scope": span.scope[:200],
        "agent_name": found.agent_name[:200],
        "requested": [{**asdict(call), "arguments": bounded(call.arguments)} for call in found.requested],
        "error": span.status_message[:1000] if span.failed else "",
        "attributes": kept(span.attributes, _STORED_ELSEWHERE),
    }
    return {name: value for name, value in known.items() if value not in ("", [], {})}


def _loose(
    span: Span, agent: str, found: Answer | ToolRun | None, judged: list[tuple[str, ImportedFeedback]]
) -> LooseSpan:
    separate = span.attributes.get("gen_ai.operation.name") is None and "openinference.span.kind" not in span.attributes
    return LooseSpan(
        agent=agent,
        trace_id=span.trace_id,
        span_id=span.span_id,
        tool_call=_tool_call(span, found) if isinstance(found, ToolRun) else None,
        evaluations=[_stored(response_id, said) for response_id, said in judged],
        judges=span.parent_id if separate else span.span_id,
        of_agent=span.attributes.get("gen_ai.operation.name") == "invoke_agent"
        or span.attributes.get("openinference.span.kind") == "AGENT",
    )


def _tool_call(span: Span, run: ToolRun) -> dict[str, Any]:
    started = moment(span.start)
    call = ToolCall(
        tool_name=run.name,
        arguments=bounded(run.arguments),
        result=bounded(run.result),
        success=not run.failed,
        duration_ms=span.duration_ms,
        error=run.error[:2000],
        timestamp=started.isoformat() if started else "",
    )
    return {**asdict(call), "call_id": run.call_id, "span_id": span.span_id}


def _stored(response_id: str, said: ImportedFeedback) -> dict[str, Any]:
    at = said.rated_at.isoformat() if said.rated_at else None
    return {
        "response_id": response_id,
        "kind": said.kind,
        "rater": said.rater,
        "scale": said.scale,
        "value": said.value,
        "metric": said.metric,
        "tags": list(said.tags),
        "notes": said.notes,
        "rated_at": at,
    }


def _checked(loose: LooseSpan) -> LooseSpan:
    if reason := unstorable([loose.tool_call, loose.evaluations]):
        raise UsageError(reason)
    return loose
