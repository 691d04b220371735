"""Which answer asked for a tool call, and which one an evaluation judges. The order of arrival does not matter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Asker(Generic[Key]):
    """An answer of one OpenTelemetry trace."""

    key: Key
    span_id: str
    at: datetime
    requested: tuple[Mapping[str, Any], ...] = ()
    """{id, name, arguments} of the tool calls that it asked for."""

    def asked_for(self, field: str, value: str) -> bool:
        return any(call.get(field) == value for call in self.requested)


def asker_of(call: Mapping[str, Any], answers: Iterable[Asker[Key]]) -> Asker[Key] | None:
    """The answer that gave the call its id. Where the client gives no id: the latest one before the call that asked for a
    tool of this name, else the latest one before the call."""
    ordered = sorted(answers, key=lambda answer: (answer.at, answer.span_id), reverse=True)
    if call_id := call.get("call_id"):
        return next((answer for answer in ordered if answer.asked_for("id", call_id)), None)
    began = _time(call.get("timestamp"))
    before = [answer for answer in ordered if began is None or answer.at <= began]
    same_tool = (answer for answer in before if answer.asked_for("name", str(call.get("tool_name"))))
    return next(same_tool, before[0] if before else None)


def judged_by(span_id: str, of_agent: bool, answers: Sequence[Asker[Key]]) -> Asker[Key] | None:
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
