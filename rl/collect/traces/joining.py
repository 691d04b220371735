"""The calls of a model that one run of an agent consists of, joined into one answer.

A loop of tools calls its model again with the results, and each call is a span, often in a trace of its own. A call goes on
with the run whose tool calls it was given the results of: by their ids, in the same trace, else in the same conversation,
else after the same prompt. The run is known by its last call; ``details["otel"]["parts"]`` has all of them, so that the
order in which they arrive does not matter."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q

from rl.base.records import Message, ReasoningStep
from rl.collect.otlp import FoundAnswer
from rl.collect.otlp.history import answered_keys, call_keys, in_words
from rl.collect.traces.records import as_json_items
from rl.models import Agent, Trace, prompt_key

OTEL = "otel"
"""The part of a trace's details that tells the calls of its run."""
NEWEST = 500
"""Answers of an agent among which the beginning of a run is looked for, beside those of the same traces and
conversations."""
_SUMS = ("tokens_in", "tokens_out", "cost", "duration_ms")
_START = datetime.min.replace(tzinfo=UTC)
Part = dict[str, Any]
"""A call of the model: span_id, trace_id, at (ISO 8601), external_id, asked (keys of the calls that it asked for),
scope, sums."""


@dataclass(eq=False, slots=True)
class JoinedRun:
    prompt: list[Message]
    """With earlier calls as data beside their words."""
    steps: list[Message]
    """Up to and without the last turn."""
    turn: Message
    parts: list[Part]
    session_id: str
    trace: Trace | None = None
    """Where it is stored."""
    answer: FoundAnswer | None = None
    """The last call that arrived now; None: what is stored is still the end."""
    reasoning: list[ReasoningStep] = field(default_factory=list)
    """That has arrived now."""
    changed: bool = False

    def has(self, answer: FoundAnswer) -> bool:
        return any((part["trace_id"], part["span_id"]) == (answer.trace_id, answer.span_id) for part in self.parts)

    def relation(self, answer: FoundAnswer) -> int:
        """3: of the same trace, 2: of the same conversation, 1: with the same prompt, 0: none. Ids of tool calls are not
        distinct everywhere."""
        if any(part["trace_id"] == answer.trace_id for part in self.parts):
            return 3
        return 2 if self.session_id == answer.record.session_id else int(self._same_prompt(answer))

    def goes_on_with(self, answer: FoundAnswer) -> bool:
        asked = set(self.parts[-1]["asked"])
        return bool(asked) and _at(answer) >= self.parts[-1]["at"] and asked <= answered_keys(answer.history.steps)

    def came_after(self, answer: FoundAnswer) -> bool:
        asked = set(call_keys([answer.turn]))
        return bool(asked) and _at(answer) <= self.parts[-1]["at"] and asked <= answered_keys(self.steps)

    def add(self, answer: FoundAnswer) -> None:
        is_last = _at(answer) >= self.parts[-1]["at"]
        if is_last:
            if self._same_prompt(answer):
                self.steps = list(answer.history.steps)
            else:
                # The results behind the last turn that the model is told of again.
                steps = answer.history.steps
                last = max(
                    (number for number, message in enumerate(steps) if message["role"] == "assistant"), default=-1
                )
                self.steps = [*self.steps, self.turn, *list(steps[last + 1 :])]
            self.turn, self.answer = answer.turn, answer
        self.parts = sorted([*self.parts, part_of(answer)], key=lambda part: (part["at"], part["span_id"]))
        self.reasoning += answer.record.reasoning_steps
        self.changed = True

    def _same_prompt(self, answer: FoundAnswer) -> bool:
        return not answer.history.is_partial and prompt_key(self.prompt) == prompt_key(answer.history.prompt)

    @property
    def messages(self) -> list[Message]:
        return [*self.prompt, *self.steps, self.turn]


def begin(answer: FoundAnswer) -> JoinedRun:
    prompt, record = list(answer.history.given), answer.record
    steps = [] if answer.history.is_partial else list(answer.history.steps)
    reasoning = list(record.reasoning_steps)
    return JoinedRun(prompt, steps, answer.turn, [part_of(answer)], record.session_id, None, answer, reasoning)


def part_of(answer: FoundAnswer) -> Part:
    sums = {name: value for name in _SUMS if (value := getattr(answer.record, name)) is not None}
    asked = call_keys([answer.turn])
    names = {"span_id": answer.span_id, "trace_id": answer.trace_id, "external_id": answer.record.external_id}
    return {**names, "at": _at(answer), "asked": asked, "scope": scope_of(answer.record.details), **sums}


def is_part(answer: FoundAnswer) -> bool:
    """Whether there may be other calls of its run."""
    return answer.kind == "model" and bool(answer.history.steps or answer.turn.get("tool_calls"))


def stored_runs(agent: Agent, answers: Sequence[FoundAnswer]) -> list[JoinedRun]:
    """The runs of the agent that these may belong to, in the order of their beginning."""
    otel = Trace.objects.filter(agent=agent, details__has_key="otel")
    traces = Q(otel_trace_id__in={answer.trace_id for answer in answers})
    talks = Q(session_id__in={answer.record.session_id for answer in answers} - {""})
    near = {trace.pk: trace for trace in otel.filter(traces | talks).order_by("-created_at")[:NEWEST]}
    near |= {trace.pk: trace for trace in otel.order_by("-created_at")[:NEWEST]}
    return sorted(filter(None, map(stored_run, near.values())), key=lambda run: run.parts[0]["at"])


def find(runs: Sequence[JoinedRun], answer: FoundAnswer) -> JoinedRun | None:
    """The nearest that it belongs to, of several the newest."""
    if known := next((run for run in runs if run.has(answer)), None):
        return known
    fitting = [run for run in runs if run.goes_on_with(answer) or run.came_after(answer)]
    nearest = max(fitting, key=lambda run: (run.relation(answer), run.parts[0]["at"]), default=None)
    return nearest if nearest and nearest.relation(answer) else None


def as_answer(run: JoinedRun) -> FoundAnswer:
    """A run that is not stored yet, as one answer: its last call with all that came before."""
    assert run.answer is not None  # noqa: S101  it has just arrived
    record = run.answer.record
    values: dict[str, Any] = {"prompt": in_words(run.prompt), **sums_of(run)} if len(run.parts) > 1 else {}
    details = details_of(run, dict(record.details))
    first = datetime.fromisoformat(run.parts[0]["at"]) if run.parts[0]["at"] else None
    values |= {"details": details, "session_id": run.session_id, "occurred_at": first}
    values["reasoning_steps"] = tuple(run.reasoning)
    return replace(run.answer, record=replace(record, **values))


def update(run: JoinedRun) -> Trace:
    """A stored run with what has arrived of it now, to be saved with ``COLUMNS``."""
    trace = run.trace
    assert trace is not None  # noqa: S101
    if run.answer is not None:
        record = run.answer.record
        trace.response, trace.external_id = record.response, record.external_id
        trace.details = {**trace.details, **record.details}
    for name, value in sums_of(run).items():
        setattr(trace, name, value)
    trace.details = details_of(run, trace.details)
    trace.occurred_at = datetime.fromisoformat(run.parts[0]["at"])
    trace.reasoning_steps = [*trace.reasoning_steps, *as_json_items(run.reasoning)]
    trace.reward_pending = True
    return trace


COLUMNS = (
    *("response", "external_id", "details", "occurred_at", "reasoning_steps", "reward_pending", "llm_calls"),
    *_SUMS,
)


def details_of(run: JoinedRun, details: dict[str, Any], name: str = OTEL) -> dict[str, Any]:
    """``name``: which part of the details tells the calls."""
    known = {**details.get(name, {}), **({"parts": run.parts} if len(run.parts) > 1 else {})}
    return {**details, name: known, "messages": [dict(message) for message in run.messages]}


def sums_of(run: JoinedRun) -> dict[str, Any]:
    """The time is that from the beginning of the first call to the end of the last."""
    sums: dict[str, Any] = {"llm_calls": len(run.parts)}
    for name in _SUMS:
        values = [part[name] for part in run.parts if part.get(name) is not None]
        sums[name] = sum(values) if values else None
    first, last = run.parts[0], run.parts[-1]
    if first["at"] and last.get("duration_ms") is not None:
        between = datetime.fromisoformat(last["at"]) - datetime.fromisoformat(first["at"])
        sums["duration_ms"] = round(between.total_seconds() * 1000) + last["duration_ms"]
    return sums


def stored_run(trace: Trace, name: str = OTEL) -> JoinedRun | None:
    """None for an answer that no tool had to do with, and for an agent's as a whole. ``name`` as ``details_of`` has it."""
    known, messages = trace.details.get(name), trace.details.get("messages")
    if not isinstance(known, dict) or not isinstance(messages, list) or len(messages) <= len(trace.prompt):
        return None
    if known.get("kind") == "agent":
        return None
    begin = len(trace.prompt)
    own = {"span_id": known.get("span_id", ""), "trace_id": known.get("trace_id", ""), "at": _text(trace.occurred_at)}
    sums = {name: getattr(trace, name) for name in _SUMS}
    single = {
        **own,
        **sums,
        "scope": scope_of(trace.details),
        "external_id": trace.external_id,
        "asked": call_keys(messages[-1:]),
    }
    parts = known.get("parts") or [single]
    return JoinedRun(messages[:begin], messages[begin:-1], messages[-1], parts, trace.session_id, trace=trace)


def scope_of(details: Mapping[str, Any]) -> str:
    """The instrumentation that told an answer."""
    otel = details.get(OTEL)
    return str(otel.get("scope", "")) if isinstance(otel, dict) else ""


def otel_of(trace: Trace) -> dict[str, Any]:
    otel = trace.details.get(OTEL)
    return otel if isinstance(otel, dict) else {}


def _at(answer: FoundAnswer) -> str:
    return _text(answer.record.occurred_at or _START)


def _text(time: datetime) -> str:
    """Comparable as text: all times are in UTC and to the microsecond."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True, slots=True)
class Asker:
    """An answer of one OpenTelemetry trace."""

    key: Any
    span_id: str
    at: datetime
    requested: tuple[Mapping[str, Any], ...] = ()
    """{id, name, arguments} of the tool calls that it asked for."""

    def asked_for(self, field: str, value: str) -> bool:
        return any(call.get(field) == value for call in self.requested)


def asker_of(call: Mapping[str, Any], answers: Iterable[Asker]) -> Asker | None:
    """The answer that gave the call its id. Where the client gives no id: the latest one before the call that asked for a
    tool of this name, else the latest one before the call."""
    ordered = sorted(answers, key=lambda answer: (answer.at, answer.span_id), reverse=True)
    if call_id := call.get("call_id"):
        return next((answer for answer in ordered if answer.asked_for("id", call_id)), None)
    began = _time(call.get("timestamp"))
    before = [answer for answer in ordered if began is None or answer.at <= began]
    same_tool = (answer for answer in before if answer.asked_for("name", str(call.get("tool_name"))))
    return next(same_tool, before[0] if before else None)


def judged_by(span_id: str, of_agent: bool, answers: Sequence[Asker]) -> Asker | None:
    """The answer of the span itself; of an agent's span that is not an answer, the last one."""
    own = next((answer for answer in answers if answer.span_id == span_id), None)
    if own is None and of_agent and answers:
        return max(answers, key=lambda answer: (answer.at, answer.span_id))
    return own


def _time(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) and text else None
    except ValueError:
        return None
