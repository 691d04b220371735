"""One request, the version that answers it, and the record of what it said."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID, uuid4

from rl.base.records import ReasoningStep, ToolCall
from rl.collect.otlp.messages import with_calls
from rl.serving.gateway.answering import Answer, Choice, clean
from rl.serving.gateway.asking import Asked
from rl.serving.gateway.routing import KnownKey, Route

_ELSEWHERE: Final = ("messages", "model", "stream", "stream_options", "tools", "user", "safety_identifier")
"""What of a request's body is no parameter, or is kept under a name of its own."""


@dataclass(slots=True)
class Exchange:
    key: KnownKey
    asked: Asked
    route: Route
    id: UUID = field(default_factory=uuid4)
    occurred_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    started: float = field(default_factory=time.monotonic)
    answer: Answer = field(default_factory=Answer)
    failed: bool = False
    """The version is to blame."""
    is_kept: bool = False

    def headers(self) -> dict[str, str]:
        unbuffered = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
        return {"x-ratchet-trace": str(self.id), **self.side_headers(), **unbuffered}

    def side_headers(self) -> dict[str, str]:
        """For refusals too, of which there is no trace."""
        arm = {"x-ratchet-arm": str(self.route.arm_id)} if self.route.arm_id is not None else {}
        return {"x-ratchet-version": self.route.served.version, **arm}

    def under_our_name(self, piece: Mapping[str, Any]) -> dict[str, Any]:
        """A chunk or a completion whose id is the trace's."""
        return {**piece, "id": str(self.id), "model": self.route.model}

    def document(self) -> dict[str, Any]:
        """As ``rl/serving/gateway/storing.py`` takes it."""
        route = self.route
        return {
            "agent_id": route.agent.id,
            "model_version_id": route.served.version_id,
            "version": route.served.version,
            "experiment_id": route.experiment_id,
            "arm_id": route.arm_id,
            "unit": self.asked.unit,
            "session_id": self.asked.session_id,
            "api_key_id": self.key.id,
            "failed": self.failed,
            "prompt": self.asked.prompt,
            **said_by(self.answer),
            "duration_ms": self._milliseconds(time.monotonic()),
            "occurred_at": self.occurred_at.isoformat(),
            "details": {**self._details(), **details_of(self.answer)},
        }

    def _details(self) -> dict[str, Any]:
        given, answer = self.asked.document, self.answer
        first = self._milliseconds(answer.first_at) if answer.first_at is not None and self.asked.streams else None
        known = {
            "time_to_first_token_ms": first,
            "parameters": {name: value for name, value in given.items() if name not in _ELSEWHERE},
            "tools": given.get("tools"),
        }
        return {"stream": self.asked.streams, **_filled(known)}

    def _milliseconds(self, until: float) -> int:
        return round((until - self.started) * 1000)


def said_by(answer: Answer) -> dict[str, Any]:
    """The columns of a trace that tell it."""
    choice = answer.first
    return {
        "response": with_calls(clean("".join(choice.text)), choice.requested()),
        "tool_calls": [asdict(ToolCall(one.name, one.arguments)) for one in choice.requested()],
        "reasoning_steps": _thoughts(choice),
        "tokens_in": answer.tokens("prompt_tokens"),
        "tokens_out": answer.tokens("completion_tokens"),
    }


def details_of(answer: Answer) -> dict[str, Any]:
    known = {
        "finish_reason": answer.first.finish_reason,
        "error": answer.error,
        "choices": [_other(index, one) for index, one in sorted(answer.choices.items()) if index != 0],
    }
    return {"complete": answer.complete, **_filled(known)}


def _filled(known: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in known.items() if value not in (None, "", [], {})}


def _other(index: int, choice: Choice) -> dict[str, Any]:
    return {
        "index": index,
        "response": with_calls(clean("".join(choice.text)), choice.requested()),
        "finish_reason": choice.finish_reason,
    }


def _thoughts(choice: Choice) -> list[dict[str, Any]]:
    text = clean("".join(choice.thoughts))
    return [asdict(ReasoningStep(text, "reasoning"))] if text else []
