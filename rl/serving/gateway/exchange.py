"""One request, the version that answers it, and the record of its answer."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID, uuid4

from rl.base.records import ReasoningStep, ToolCall
from rl.collect.feedback.tokens import TokenSubject, sign
from rl.collect.otlp.history import split, turn
from rl.collect.otlp.messages import with_calls
from rl.serving.dialects.chat import CHAT
from rl.serving.dialects.dialect import AnswerHead
from rl.serving.gateway.answer import Answer, clean
from rl.serving.gateway.chat_request import ChatRequest
from rl.serving.gateway.routing import KnownKey, Route
from rl.serving.gateway.trace_context import TraceContext

_ELSEWHERE: Final = ("messages", "model", "stream", "stream_options", "tools", "user", "safety_identifier")
"""Fields of a request's body that are not parameters, or are stored under a name of their own."""
DIALECT: Final = "dialect"
"""The part of a trace's details that tells in which dialect it was asked for, and what that keeps."""


@dataclass(slots=True)
class Exchange:
    key: KnownKey
    request: ChatRequest
    route: Route
    id: UUID = field(default_factory=uuid4)
    occurred_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    started: float = field(default_factory=time.monotonic)
    answer: Answer = field(default_factory=Answer)
    failed: bool = False
    """The version is to blame."""
    is_recorded: bool = False
    judging: dict[str, Any] = field(default_factory=dict)
    """How the best of several answers was chosen, or why it was not."""
    choosing: dict[str, Any] = field(default_factory=dict)
    """Among how many answers of a closed set it was chosen, and how probable each was."""
    keeping: dict[str, Any] = field(default_factory=dict)
    """In which form the server was asked for the agent's schema, or that it refuses it."""
    is_blind: bool = False
    """Nothing that is sent may tell the version, or the id under which it could be looked up."""
    trace_context: TraceContext | None = None
    """The client's own trace that the answer is a part of."""

    def headers(self) -> dict[str, str]:
        unbuffered = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
        if self.is_blind:
            return unbuffered
        token = sign(TokenSubject(self.id, self.route.agent.id, self.request.raters))  # lets a widget rate it
        return {"x-ratchet-trace": str(self.id), "x-ratchet-token": token, **self.side_headers(), **unbuffered}

    def side_headers(self) -> dict[str, str]:
        """Headers that refusals get too, of which there is no trace."""
        if self.is_blind:
            return {}
        headers = {"x-ratchet-version": self.route.served.version}
        if self.route.arm_id is not None:
            headers["x-ratchet-arm"] = str(self.route.arm_id)
        if names := ", ".join(quote(name[:40]) for name in self.request.left_out[:20]):
            headers["x-ratchet-left-out"] = names
        return headers

    def head(self) -> AnswerHead:
        created = int(self.occurred_at.timestamp())
        return AnswerHead(self.id, self.route.model, created, self.request.document, self.request.kept)

    def whole(self, completion: Mapping[str, Any]) -> dict[str, Any]:
        """A completion as the client's dialect writes it, under the id of the trace."""
        return self.request.dialect.whole(self.head(), completion)

    def document(self) -> dict[str, Any]:
        """The exchange as ``rl/serving/gateway/answer_rows.py`` takes it."""
        route, history = self.route, split(self.request.messages)
        sent, given = self.request.document, self.answer
        first = self._milliseconds(given.first_at) if given.first_at is not None and self.request.streams else None
        details = {
            "time_to_first_token_ms": first,
            "parameters": {name: value for name, value in sent.items() if name not in _ELSEWHERE},
            "tools": None if sent.get("tool_choice") == "none" else sent.get("tools"),
            "best_of": self.judging,
            "chosen": self.choosing,
            "kept": self.keeping,
            DIALECT: {} if self.request.dialect is CHAT else {"name": self.request.dialect.name, **self.request.kept},
            "trace_context": self.trace_context.details() if self.trace_context else {},
            "model_version": self.choosing.get("asked"),  # none of this agent's
        }
        return {
            "agent_id": route.agent.id,
            "model_version_id": route.served.version_id,
            "version": route.served.version,
            "experiment_id": route.experiment_id,
            "arm_id": route.arm_id,
            "unit": self.request.unit,
            "session_id": self.request.session_id,
            "api_key_id": self.key.id,
            "failed": self.failed,
            "prompt": history.given,
            "steps": () if history.is_partial else history.steps,
            **columns_of(self.answer),
            "duration_ms": self._milliseconds(time.monotonic()),
            "occurred_at": self.occurred_at.isoformat(),
            "details": {"stream": self.request.streams, **_drop_empty(details), **details_of(self.answer)},
        }

    def _milliseconds(self, until: float) -> int:
        return round((until - self.started) * 1000)


def columns_of(answer: Answer) -> dict[str, Any]:
    """The columns of a trace that hold it, and with the calls as data its ``turn``."""
    choice = answer.first
    text, calls = clean("".join(choice.text)), choice.tool_calls()
    thoughts = clean("".join(choice.thoughts))
    return {
        "response": with_calls(text, calls),
        "turn": turn(text, calls),
        "tool_calls": [asdict(ToolCall(call.name, call.arguments)) for call in calls],
        "reasoning_steps": [asdict(ReasoningStep(thoughts, "reasoning"))] if thoughts else [],
        "tokens_in": answer.tokens("prompt_tokens"),
        "tokens_out": answer.tokens("completion_tokens"),
    }


def details_of(answer: Answer) -> dict[str, Any]:
    details = {
        "finish_reason": answer.first.finish_reason,
        "error": answer.error,
        "choices": [
            {
                "index": index,
                "response": with_calls(clean("".join(choice.text)), choice.tool_calls()),
                "finish_reason": choice.finish_reason,
            }
            for index, choice in sorted(answer.choices.items())
            if index != 0
        ],
    }
    return {"complete": answer.complete, **_drop_empty(details)}


def _drop_empty(details: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in details.items() if value not in (None, "", [], {})}
