"""Spans to answers, and to what belongs to an answer that may arrive in another batch: tool calls and evaluations.

``gen_ai.evaluation.result`` is what a program thinks of an answer, as a span event or as a span of its own.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from rl.base.answer_ids import stored_name
from rl.base.errors import UsageError
from rl.base.messages import has_calls
from rl.base.records import Message, ReasoningStep, ToolCall
from rl.base.slugs import check_slug, one_line
from rl.collect.limits import MAX_ID_LENGTH, MAX_METRIC_LENGTH, MAX_NOTES_LENGTH, MAX_RATER_LENGTH, MAX_TAG_LENGTH
from rl.collect.otlp import gen_ai, langfuse, openinference, vercel
from rl.collect.otlp.history import History, split, turn
from rl.collect.otlp.messages import with_calls
from rl.collect.otlp.spans import Span, SpanAnswer, ToolRun, fit, moment, remaining_attributes, text
from rl.collect.storable import unstorable
from rl.collect.traces.imported import ImportedFeedback, ImportedTrace, Rejected

NO_AGENT = "nothing says whose answer it is: set OTEL_SERVICE_NAME to the name of the agent"
NO_CONTENT = (
    "carried no messages and were left out: set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY, "
    "or what switches messages on in your client"
)
NO_QUESTION = "the last message of its user has no text: nothing can be learned from that"
NO_CALLS = "it ended by calling tools, and the client does not tell which: its words alone are not the answer"
OTHERS: Mapping[str, str] = {
    "mlflow.spanInputs": "MLflow",
    "genkit:input": "Genkit",
    "gcp.vertex.agent.llm_request": "Google's ADK",
    "lk.chat_ctx": "LiveKit",
    "pydantic_ai.all_messages": "an old Pydantic AI",
    "langsmith.span.kind": "LangSmith",
}
"""Attributes of dialects that are not read, and whose they are; a span may say the same in one that is."""
INSTEAD = "switch on its gen_ai.* attributes, or trace with an instrumentation of OpenInference or Traceloop"
_CALLING = ("tool_calls", "tool-calls", "tool_use", "function_call")
"""Why a model ended that wants its tools' results."""
_CONTENT = (
    *(*gen_ai.CONTENT, *gen_ai.NUMBERED.values()),
    *(*openinference.CONTENT, *vercel.CONTENT, *langfuse.CONTENT),
)
NAME = "gen_ai.evaluation.result"
VERDICTS: Mapping[str, float] = {
    **dict.fromkeys(("pass", "passed", "correct", "relevant", "good"), 1.0),
    **dict.fromkeys(("fail", "failed", "incorrect", "not_relevant", "irrelevant", "bad"), 0.0),
}
"""Labels that say which way a score points."""
LESS_IS_BETTER = ("toxic", "hallucinat", "bias", "harm", "violen", "injection", "jailbreak")
"""Parts of the names of evaluators whose high scores are not praise; of others, a score from 0 to 1 rates the answer."""


@dataclass(frozen=True, slots=True)
class FoundAnswer:
    agent: str
    trace_id: str
    span_id: str
    kind: Literal["model", "agent"]
    record: ImportedTrace
    history: History = History(())
    """What the model was given, as data."""
    turn: Message = field(default_factory=lambda: turn("", ()))
    """What it said, as data."""


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
    """The span id of the answer that evaluations are about, or of the agent whose last answer is meant."""
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
    content = vercel.read(span) or gen_ai.read(span) or openinference.read(span) or langfuse.read(span)
    judgements = list(evaluations(span))
    empty = isinstance(content, SpanAnswer) and not (content.prompt and content.response.strip())
    if isinstance(content, SpanAnswer) and content.kind == "model" and empty:
        mapped.without_content += not (content.prompt and span.failed)
    if not judgements and (content is None or empty):
        if content is None and (dialect := next((OTHERS[name] for name in OTHERS if name in span.attributes), "")):
            raise UsageError(f"{dialect} tells model calls in a dialect of its own, which is not read: {INSTEAD}")
        return
    owner = agent or agent_name(span)
    if not owner:
        raise UsageError(NO_AGENT)
    if isinstance(content, SpanAnswer) and not empty:
        asked = [message["content"] for message in content.prompt if message["role"] == "user"]
        if asked and not asked[-1].strip():
            raise UsageError(NO_QUESTION)
        if content.kind == "model" and content.finish_reason in _CALLING and not content.requested:
            raise UsageError(NO_CALLS)
        history = split(content.prompt)
        last_turn = turn(
            content.response.removesuffix(with_calls("", content.requested)).rstrip("\n"), content.requested
        )
        record = _record(span, content, history)
        if has_calls(history.given) or (content.kind == "agent" and history.steps):
            record = replace(
                record, details={**record.details, "messages": [*history.given, *history.steps, last_turn]}
            )
        mapped.answers.append(FoundAnswer(owner, span.trace_id, span.span_id, content.kind, record, history, last_turn))
    if isinstance(content, ToolRun) or judgements:
        loose = _loose(span, owner, content, judgements)
        if reason := unstorable([loose.tool_call, loose.evaluations]):
            raise UsageError(reason)
        mapped.loose.append(loose)


def _record(span: Span, answer: SpanAnswer, history: History) -> ImportedTrace:
    response_id = stored_name(answer.response_id) if len(answer.response_id) <= MAX_ID_LENGTH else ""
    details = {
        "kind": answer.kind,
        "trace_id": span.trace_id,
        "span_id": span.span_id,
        "parent_span_id": span.parent_id,
        "scope": span.scope[:200],
        "agent_name": answer.agent_name[:200],
        "requested": [{**asdict(call), "arguments": fit(call.arguments)} for call in answer.requested],
        "error": span.status_message[:1000] if span.failed else "",
        "attributes": remaining_attributes(span.attributes, _CONTENT),
    }
    return ImportedTrace(
        where=span.where,
        external_id=response_id or span.span_id,
        prompt=history.prompt,
        response=answer.response,
        session_id=(answer.session_id or span.trace_id)[:MAX_ID_LENGTH],
        model_version=answer.model[:MAX_ID_LENGTH],
        reasoning_steps=tuple(ReasoningStep(words, "reasoning") for words in answer.reasoning if words),
        tokens_in=answer.tokens_in,
        tokens_out=answer.tokens_out,
        llm_calls=1 if answer.kind == "model" else None,
        cost=answer.cost,
        duration_ms=span.duration_ms,
        details={
            "otel": {name: value for name, value in details.items() if value not in ("", [], {})},
            **({"tools": list(answer.tools)} if answer.tools else {}),
            **({"finish_reason": reason[:100]} if (reason := "error" if span.failed else answer.finish_reason) else {}),
        },
        occurred_at=moment(span.start),
    )


def by_span(record: ImportedTrace, span_id: str) -> ImportedTrace:
    """The same answer under the id of its span: some servers give the same response id to several answers."""
    return replace(record, external_id=span_id)


def _loose(
    span: Span, agent: str, content: SpanAnswer | ToolRun | None, judgements: list[tuple[str, ImportedFeedback]]
) -> LooseSpan:
    separate = span.attributes.get("gen_ai.operation.name") is None and "openinference.span.kind" not in span.attributes
    return LooseSpan(
        agent=agent,
        trace_id=span.trace_id,
        span_id=span.span_id,
        tool_call=_tool_call(span, content) if isinstance(content, ToolRun) else None,
        evaluations=[evaluation_to_json(response_id, feedback) for response_id, feedback in judgements],
        judges=span.parent_id if separate else span.span_id,
        of_agent=span.attributes.get("gen_ai.operation.name") == "invoke_agent"
        or span.attributes.get("openinference.span.kind") == "AGENT",
    )


def _tool_call(span: Span, run: ToolRun) -> dict[str, Any]:
    started = moment(span.start)
    call = ToolCall(
        tool_name=run.name,
        arguments=fit(run.arguments),
        result=fit(run.result),
        success=not run.failed,
        duration_ms=span.duration_ms,
        error=run.error[:2000],
        timestamp=started.isoformat() if started else "",
    )
    return {**asdict(call), "call_id": run.call_id, "span_id": span.span_id}


def evaluation_to_json(response_id: str, feedback: ImportedFeedback) -> dict[str, Any]:
    names = ("kind", "rater", "scale", "value", "metric", "notes")
    return {
        "response_id": response_id,
        **{name: getattr(feedback, name) for name in names},
        "tags": list(feedback.tags),
        "rated_at": feedback.rated_at.isoformat() if feedback.rated_at else None,
    }


def evaluations(span: Span) -> Iterator[tuple[str, ImportedFeedback]]:
    """Each with the id of the response that it names, or none. Without a score and a known label there is nothing."""
    if span.name == NAME or "gen_ai.evaluation.name" in span.attributes:
        yield from _read(span.attributes, span.end or span.start)
    for event in span.events:
        if event.name == NAME:
            yield from _read(event.attributes, event.time)


def _read(attributes: Mapping[str, Any], time: int) -> Iterator[tuple[str, ImportedFeedback]]:
    name = one_line(text(attributes, "gen_ai.evaluation.name")).strip() or "evaluation"
    label, value = text(attributes, "gen_ai.evaluation.score.label"), attributes.get("gen_ai.evaluation.score.value")
    score = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    common: dict[str, Any] = {
        "rater": f"system:{name}"[:MAX_RATER_LENGTH],
        "notes": text(attributes, "gen_ai.evaluation.explanation")[:MAX_NOTES_LENGTH],
        "tags": (label[:MAX_TAG_LENGTH],) if label else (),
        "rated_at": moment(time),
    }
    verdict = VERDICTS.get(label.lower().replace(" ", "_"))
    praises = not any(part in name.lower() for part in LESS_IS_BETTER)
    rating = score if praises and score is not None and 0 <= score <= 1 else None
    rating = verdict if verdict is not None else rating
    response_id = stored_name(text(attributes, "gen_ai.response.id"))
    if rating is not None:
        yield response_id, ImportedFeedback(kind="rating", scale="score", value=rating, **common)
    elif score is not None:
        yield response_id, ImportedFeedback(kind="outcome", metric=name[:MAX_METRIC_LENGTH], value=score, **common)
