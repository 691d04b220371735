"""Anthropic's Messages API: answers as blocks, and as streams of named events
(https://platform.claude.com/docs/en/build-with-claude/streaming)."""

import json
from datetime import UTC, datetime
from typing import Any, Final

from rl.base import logs
from rl.serving.dialects.dialect import AnswerHead, ApiDialect, Chunk, Document, Headers, RequestRate, event
from rl.serving.dialects.messages_request import as_chat
from rl.serving.dialects.parts import CALL, THOUGHTS, AnswerPart, PartEvent, PartReader, PartStep, read_whole

_STOPS: Final = {"length": "max_tokens", "content_filter": "refusal", "tool_calls": "tool_use"}
"""By how a chat completion ended."""
_ERRORS: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def _error(status: int, error: Document) -> dict[str, Any]:
    kind = _ERRORS.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {
        "type": "error",
        "error": {"type": kind, "message": error["message"]},
        "request_id": logs.request_id.get() or None,
    }


def _whole(head: AnswerHead, completion: Document) -> dict[str, Any]:
    reader = read_whole(completion)
    content = [_block(part, part.text) for part in reader.parts]
    return {**_message(head, content, reader.usage), "stop_reason": _stop_reason(reader)}


def _message(head: AnswerHead, content: list[Any], usage: Document) -> dict[str, Any]:
    return {
        "id": f"msg_{head.id.hex}",
        "type": "message",
        "role": "assistant",
        "model": head.model,
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _usage(usage),
    }


def _usage(usage: Document) -> dict[str, Any]:
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    read = cached if isinstance(cached, int) else 0
    return {
        "input_tokens": max(0, (usage.get("prompt_tokens") or 0) - read),
        "output_tokens": usage.get("completion_tokens") or 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": read,
    }


def _stop_reason(reader: PartReader) -> str:
    if any(part.kind == CALL for part in reader.parts) and reader.finish_reason != "length":
        return "tool_use"
    return _STOPS.get(reader.finish_reason, "end_turn")


def _block(part: AnswerPart, text: str) -> dict[str, Any]:
    if part.kind == CALL:
        return {"type": "tool_use", "id": part.call_id, "name": part.name, "input": _object(text)}
    if part.kind == THOUGHTS:
        return {"type": "thinking", "thinking": text, "signature": ""}
    return {"type": "text", "text": text}


def _object(arguments: str) -> dict[str, Any]:
    """The object that they are; what a model wrote otherwise, under ``input``."""
    if not arguments.strip():
        return {}
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        value = arguments
    return value if isinstance(value, dict) else {"input": value}


class MessageStream:
    def __init__(self, head: AnswerHead) -> None:
        self._head, self._reader = head, PartReader()
        self._has_begun = False

    def write(self, chunk: Chunk) -> bytes:
        return self._begin() + b"".join(map(self._tell, self._reader.take(chunk)))

    def end(self) -> bytes:
        rest = self._begin() + b"".join(map(self._tell, self._reader.end()))
        delta = {"stop_reason": _stop_reason(self._reader), "stop_sequence": None}
        rest += _event("message_delta", delta=delta, usage=_usage(self._reader.usage))
        return rest + _event("message_stop")

    def fail(self, status: int, error: Document) -> bytes:
        return event(_error(status, error), "error")

    def _begin(self) -> bytes:
        if self._has_begun:
            return b""
        self._has_begun = True
        return _event("message_start", message=_message(self._head, [], {}))

    def _tell(self, event: PartEvent) -> bytes:
        part = event.part
        if event.step is PartStep.BEGIN:
            return _event("content_block_start", index=part.number, content_block=_block(part, ""))
        if event.step is PartStep.END:
            return _event("content_block_stop", index=part.number)
        kinds = {CALL: ("input_json_delta", "partial_json"), THOUGHTS: ("thinking_delta", "thinking")}
        kind, name = kinds.get(part.kind, ("text_delta", "text"))
        return _event("content_block_delta", index=part.number, delta={"type": kind, name: event.piece})


def _event(name: str, /, **fields: Any) -> bytes:
    return event({"type": name, **fields}, name)


def _rate_headers(rate: RequestRate) -> Headers:
    return {
        "anthropic-ratelimit-requests-limit": rate.limit,
        "anthropic-ratelimit-requests-remaining": rate.remaining,
        "anthropic-ratelimit-requests-reset": datetime.fromtimestamp(rate.ends, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


MESSAGES: Final = ApiDialect(
    "messages", "/v1/messages", as_chat, _whole, MessageStream, _error, rate_headers=_rate_headers
)
