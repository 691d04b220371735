"""OpenAI's Responses API: answers as objects with items, and as streams of named events
(https://platform.openai.com/docs/api-reference/responses-streaming)."""

import json
from collections.abc import Iterable
from typing import Any, Final

from rl.serving.dialects.dialect import AnswerHead, ApiDialect, Chunk, Document, event, openai_error
from rl.serving.dialects.parts import CALL, TEXT, THOUGHTS, AnswerPart, PartEvent, PartReader, PartStep, read_whole
from rl.serving.dialects.responses_request import PREVIOUS, as_chat, ids_in

_INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""By how a chat completion ended: why a response is not whole."""
_RATE_LIMIT: Final = 429


def response_id(head: AnswerHead) -> str:
    return f"resp_{head.id.hex}"


def _whole(head: AnswerHead, completion: Document) -> dict[str, Any]:
    reader = read_whole(completion)
    return _end(head, reader.finish_reason, _items(head, reader.parts), reader.usage)


def _end(head: AnswerHead, finish_reason: str, output: list[Any], usage: Document) -> dict[str, Any]:
    reason = _INCOMPLETE.get(finish_reason)
    if reason and output:
        output[-1]["status"] = "incomplete"
    return {
        **_response(head, "incomplete" if reason else "completed", output),
        "incomplete_details": {"reason": reason} if reason else None,
        "usage": _usage(usage),
    }


def _response(
    head: AnswerHead, status: str, output: Iterable[Any] = (), error: Document | None = None
) -> dict[str, Any]:
    asked, kept = head.document, head.kept
    conversation = kept.get("conversation")
    metadata = {
        name: value for name, value in asked.get("metadata", {}).items() if not conversation or name != "session_id"
    }
    return {
        "id": response_id(head),
        "object": "response",
        "created_at": head.created,
        "status": status,
        "background": False,
        "error": error,
        "incomplete_details": None,
        "instructions": asked["messages"][0]["content"] if kept.get("instructions") else None,
        "max_output_tokens": asked.get("max_tokens"),
        "metadata": metadata,
        "model": head.model,
        "output": list(output),
        "parallel_tool_calls": asked.get("parallel_tool_calls", True),
        PREVIOUS: kept.get(PREVIOUS),
        "conversation": {"id": conversation} if conversation else None,
        "reasoning": {"effort": asked.get("reasoning_effort"), "summary": None},
        "store": asked.get("store", True),
        "temperature": asked.get("temperature"),
        "text": {"format": _form(asked.get("response_format")), "verbosity": asked.get("verbosity")},
        "tool_choice": _choice(head, asked.get("tool_choice", "auto")),
        "tools": [_tool(head, tool["function"]) for tool in asked.get("tools", ())],
        "top_p": asked.get("top_p"),
        "truncation": "disabled",
        "usage": None,
        "user": asked.get("user"),
    }


def _form(response_format: Document | None) -> dict[str, Any]:
    form = response_format or {"type": "text"}
    return {"type": form["type"], **form.get("json_schema", {})}


def _choice(head: AnswerHead, choice: Any) -> Any:
    if not isinstance(choice, dict):
        return choice
    name = choice["function"]["name"]
    return {"type": "custom" if name in head.kept.get("custom", ()) else "function", "name": name}


def _tool(head: AnswerHead, function: Document) -> dict[str, Any]:
    if function["name"] in head.kept.get("custom", ()):
        return {"type": "custom", "name": function["name"], "description": function.get("description")}
    return {"type": "function", "parameters": None, "strict": None, **function}


def _usage(usage: Document) -> dict[str, Any] | None:
    if not usage:
        return None
    given, made = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    return {
        "input_tokens": given,
        "input_tokens_details": {
            "cached_tokens": _count(usage.get("prompt_tokens_details"), "cached_tokens"),
            "cache_write_tokens": 0,
        },
        "output_tokens": made,
        "output_tokens_details": {
            "reasoning_tokens": _count(usage.get("completion_tokens_details"), "reasoning_tokens")
        },
        "total_tokens": given + made,
    }


def _count(counts: Any, name: str) -> int:
    value = counts.get(name) if isinstance(counts, dict) else None
    return value if isinstance(value, int) else 0


# --- items -------------------------------------------------------------------------------------------------------------


def _items(head: AnswerHead, parts: list[AnswerPart]) -> list[dict[str, Any]]:
    return [_item(head, part, parts) for part in parts]


def _item(head: AnswerHead, part: AnswerPart, parts: list[AnswerPart], status: str = "completed") -> dict[str, Any]:
    """``parts``: those of the answer until now. An item that has only begun is empty."""
    number = sum(other.kind == part.kind for other in parts[: part.number])
    begins = status == "in_progress"
    if part.kind == CALL:
        return _call(head, part, number, status, "" if begins else part.text)
    suffix = f"_{number}" if number else ""
    if part.kind == THOUGHTS:
        content = [] if begins else [_content(part)]
        own = {"id": f"rs_{head.id.hex}{suffix}", "type": "reasoning", "summary": [], "content": content}
        return {**own, "status": status}
    own = {"id": f"msg_{head.id.hex}{suffix}", "type": "message", "role": "assistant", "status": status}
    return {**own, "content": [] if begins else [_content(part)]}


def _content(part: AnswerPart, is_empty: bool = False) -> dict[str, Any]:
    text = "" if is_empty else part.text
    if part.kind == THOUGHTS:
        return {"type": "reasoning_text", "text": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": [] if is_empty else part.logprobs}


def _call(head: AnswerHead, part: AnswerPart, number: int, status: str, arguments: str) -> dict[str, Any]:
    known = {"call_id": part.call_id, "name": part.name}
    if part.name in head.kept.get("custom", ()):
        text = _input_of(arguments)
        return {
            "id": f"ctc_{head.id.hex}_{number}",
            "type": "custom_tool_call",
            **known,
            "input": text,
            "status": status,
        }
    own = {"id": f"fc_{head.id.hex}_{number}", "type": "function_call", **known}
    return {**own, "arguments": arguments, "status": status}


def _input_of(arguments: str) -> str:
    """The text that a custom tool is given; what the model wrote, where that is not of the form that it was to have."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    text = value.get("input") if isinstance(value, dict) else None
    return text if isinstance(text, str) else arguments


# --- as a stream -------------------------------------------------------------------------------------------------------


class ResponseStream:
    def __init__(self, head: AnswerHead) -> None:
        self._head, self._reader = head, PartReader()
        self._sent = 0

    def write(self, chunk: Chunk) -> bytes:
        begin = b"" if self._sent else self._begin()
        return begin + b"".join(map(self._tell, self._reader.take(chunk)))

    def end(self) -> bytes:
        rest = b"" if self._sent else self._begin()
        rest += b"".join(map(self._tell, self._reader.end()))
        ended = _end(self._head, self._reader.finish_reason, self._output, self._reader.usage)
        return rest + self._event(f"response.{ended['status']}", response=ended)

    def fail(self, status: int, error: Document) -> bytes:
        """Nothing is told of what was open."""
        begin = b"" if self._sent else self._begin()
        code = "rate_limit_exceeded" if status == _RATE_LIMIT else "server_error"
        failed = _response(self._head, "failed", self._output, {"code": code, "message": error["message"]})
        return begin + self._event("response.failed", response=failed)

    @property
    def _output(self) -> list[dict[str, Any]]:
        return _items(self._head, self._reader.parts)

    def _begin(self) -> bytes:
        response = _response(self._head, "in_progress")
        names = ("response.created", "response.in_progress")
        return b"".join(self._event(name, response=response) for name in names)

    def _tell(self, event: PartEvent) -> bytes:
        part = event.part
        status = "completed" if event.step is PartStep.END else "in_progress"
        item = _item(self._head, part, self._reader.parts, status)
        where = {"item_id": item["id"], "output_index": part.number}
        if event.step is PartStep.GO_ON:
            return self._go_on(event, item, where)
        if event.step is PartStep.BEGIN:
            added = self._event("response.output_item.added", output_index=part.number, item=item)
            return added + self._content("added", part, where)
        done = self._finish(part, item, where) + self._content("done", part, where)
        return done + self._event("response.output_item.done", output_index=part.number, item=item)

    def _content(self, what: str, part: AnswerPart, where: Document) -> bytes:
        if part.kind == CALL:
            return b""
        content = _content(part, is_empty=what == "added")
        return self._event(f"response.content_part.{what}", **where, content_index=0, part=content)

    def _go_on(self, event: PartEvent, item: Document, where: Document) -> bytes:
        new = {**where, "delta": event.piece}
        if event.part.kind == TEXT:
            return self._event("response.output_text.delta", **new, content_index=0, logprobs=list(event.logprobs))
        if event.part.kind == THOUGHTS:
            return self._event("response.reasoning_text.delta", **new, content_index=0)
        if item["type"] == "custom_tool_call":  # its text stands within what is not whole yet
            return b""
        return self._event("response.function_call_arguments.delta", **new)

    def _finish(self, part: AnswerPart, item: Document, where: Document) -> bytes:
        if part.kind == TEXT:
            content = {"text": part.text, "logprobs": part.logprobs}
            return self._event("response.output_text.done", **where, content_index=0, **content)
        if part.kind == THOUGHTS:
            return self._event("response.reasoning_text.done", **where, content_index=0, text=part.text)
        if item["type"] == "custom_tool_call":
            given = self._event("response.custom_tool_call_input.delta", **where, delta=item["input"])
            return given + self._event("response.custom_tool_call_input.done", **where, input=item["input"])
        named = {"name": part.name, "arguments": part.text}
        return self._event("response.function_call_arguments.done", **where, **named)

    def _event(self, name: str, /, **fields: Any) -> bytes:
        document = {"type": name, "sequence_number": self._sent, **fields}
        self._sent += 1
        return event(document, name)


RESPONSES: Final = ApiDialect("responses", "/v1/responses", as_chat, _whole, ResponseStream, openai_error, ids_in)
