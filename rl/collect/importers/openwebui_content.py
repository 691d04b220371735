"""What an answer of Open WebUI says and what it shows beside that: thoughts and tool calls, as HTML in its text or as items.

Open WebUI gives its models the words, without the HTML.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rl.collect.importers.fields import from_text

_SHOWN = re.compile(
    r'<details\s+type="(reasoning|tool_calls|code_interpreter)"((?:[^<>"]++|"[^"]*+")*+)>(.*?)(?:</details>|\Z)\s*',
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')
_SUMMARY = re.compile(r"<summary>.*?</summary>", re.DOTALL)
_QUOTED = re.compile(r"^> ?", re.MULTILINE)
_NAMES = "(think|thinking|reason|reasoning|thought)"
_THOUGHT = re.compile(
    rf"\A\s*(?:<{_NAMES}>(?P<tagged>.*?)(?:</\1>|\Z)|<\|begin_of_thought\|>(?P<marked>.*?)(?:<\|end_of_thought\|>|\Z))\s*",
    re.DOTALL | re.IGNORECASE,
)
"""Tags that Open WebUI knows as those of thoughts; older versions stored them."""
_SOLUTION = re.compile(r"<\|(?:begin|end)_of_solution\|>\s*")


class _Piece(NamedTuple):
    kind: str
    """``text``, ``thought``, ``call`` or ``result``."""
    text: str
    call: Mapping[str, Any] = {}


def messages_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """An answer as chat messages: turns that call tools, their results, and last what it says. ``message``: with ``content``
    as text, and ``output`` where Open WebUI stored items."""
    output = message.get("output")
    pieces = [*_items(output)] if isinstance(output, list) else []
    if not any(piece.kind == "text" and piece.text.strip() for piece in pieces):
        pieces = [*_read_shown(str(message.get("content") or ""))]
    turns: list[dict[str, Any]] = []
    thoughts, words = "", ""
    for piece in pieces:
        if piece.kind == "thought":
            thoughts = "\n\n".join(filter(None, (thoughts, piece.text)))
        elif piece.kind == "text":
            words += piece.text
        elif piece.kind == "call":
            turns.append({**_turn(words, thoughts), "tool_calls": [piece.call]})
            thoughts, words = "", ""
        else:
            turns.append({"role": "tool", "tool_call_id": piece.call.get("id"), "content": piece.text})
    return [*turns, _turn(words, thoughts)]


def _turn(words: str, thoughts: str) -> dict[str, Any]:
    turn = {"role": "assistant", "content": words.strip()}
    return {**turn, "reasoning_content": thoughts} if thoughts else turn


def _read_shown(content: str) -> Iterator[_Piece]:
    """Cuts text with HTML in it."""
    at = 0
    for match in _SHOWN.finditer(content):
        yield from _words(content[at : match.start()])
        yield from _block(match[1], dict(_ATTRIBUTE.findall(match[2])), _SUMMARY.sub("", match[3]))
        at = match.end()
    yield from _words(content[at:])


def _words(text: str) -> Iterator[_Piece]:
    if match := _THOUGHT.match(text):
        yield _Piece("thought", (match["tagged"] or match["marked"] or "").strip())
        text = text[match.end() :]
    yield _Piece("text", _SOLUTION.sub("", text))


def _block(kind: str, attributes: Mapping[str, str], body: str) -> Iterator[_Piece]:
    body = html.unescape(body).strip()
    if kind == "reasoning":
        yield _Piece("thought", _QUOTED.sub("", body).strip())
        return
    values = {name: from_text(html.unescape(value)) for name, value in attributes.items()}
    if kind == "code_interpreter":
        values |= {"name": kind, "arguments": {"code": body}, "result": values.get("output")}
    arguments, result = from_text(values.get("arguments")), values.get("result") or body
    yield from _call(values.get("id"), values.get("name"), arguments)
    if result:
        yield _result(values.get("id"), result)


def _items(output: list[Any]) -> Iterator[_Piece]:
    """Reads items as the Responses API has them."""
    for item in output:
        if not isinstance(item, dict):
            continue
        kind = item.get("type")
        if kind == "message":
            yield _Piece("text", _text_of(item.get("content")))
        elif kind == "reasoning":
            yield _Piece("thought", _text_of(item.get("content")) or _text_of(item.get("summary")))
        elif kind == "function_call":
            yield from _call(item.get("call_id"), item.get("name"), from_text(item.get("arguments")))
        elif kind == "function_call_output":
            yield _result(item.get("call_id"), _text_of(item.get("output")))


def _call(call_id: object, name: object, arguments: object) -> Iterator[_Piece]:
    named = name if isinstance(name, str) and name else "tool"
    yield _Piece("call", "", {"id": call_id, "function": {"name": named, "arguments": arguments}})


def _result(call_id: object, result: object) -> _Piece:
    return _Piece("result", result if isinstance(result, str) else str(result), {"id": call_id})


def _text_of(parts: object) -> str:
    if isinstance(parts, str):
        return parts
    texts = (part.get("text") for part in parts if isinstance(part, dict)) if isinstance(parts, list) else ()
    return "".join(text for text in texts if isinstance(text, str))
