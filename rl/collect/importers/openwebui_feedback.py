"""Open WebUI's feedback export: a list of ratings, each with a snapshot of the chat that it was given in.

The rated message is the answer, what leads to it in the tree of messages is the prompt. Where several models answered side
by side, in the arena too, the rating is a comparison with the others, as on Open WebUI's leaderboard, but for those that
the same person gave the same thumb. Open WebUI gives its models the words of an answer, without the HTML in its text.
"""

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rl.collect.importers import chat
from rl.collect.importers.fields import NotForUs, Refused, count, from_text, identity, moment, notes, obj, tags, text
from rl.collect.importers.rows import SUFFIXES, Record, Rejected, records, rows  # noqa: F401  SUFFIXES, for those who ask for it
from rl.collect.traces.imported import ImportedFeedback, ImportedTrace

LONGEST_CHAT = 500
"""Messages from the first one to the answer."""
_THUMBS = {"1": 1.0, "-1": 0.0}
_LISTS = ("data", "items")
_READ_AS = {
    "id": "the id of the rating",
    "user_id": "the rater",
    "type": "the kind of feedback",
    "data": "a rating, its reasons and rivals",
    "meta": "which message was rated",
    "snapshot": "the chat: prompt, answer, rivals",
    "updated_at": "the time of the rating",
}
Thumbs = dict[tuple[str, str], float]
"""By who rated and the id of the message."""


def read(path: Path) -> Iterator[Record | Rejected]:
    """Reads the file twice: what a rating says against another answer depends on how the same person rated that. Raises
    BadFile."""
    thumbs = thumbs_in(row for _, row in rows(path, _LISTS))
    return records(path, partial(feedback_of, thumbs=thumbs), lists=_LISTS, columns=_READ_AS)


def thumbs_in(rows: Iterable[Any]) -> Thumbs:
    thumbs: Thumbs = {}
    for row in rows:
        with suppress(Refused, AttributeError):
            value = _THUMBS.get(text(obj(row, "data"), "rating"))
            if value is not None:
                thumbs[text(row, "user_id"), text(obj(row, "meta"), "message_id")] = value
    return thumbs


def feedback_of(row: dict[str, Any], where: str, thumbs: Thumbs) -> list[ImportedTrace]:
    data, meta = obj(row, "data"), obj(row, "meta")
    if row.get("type") != "rating" or "rating" not in data:
        raise NotForUs("is not a rating") if "snapshot" in row else Refused("is not feedback of the type rating")
    thumb = _THUMBS.get(text(data, "rating"))
    if thumb is None:
        raise Refused(f"data.rating must be 1 or -1, not {data['rating']!r:.50}")
    messages, message_id = _messages(row), identity(meta, "message_id")
    if message_id not in messages:
        raise Refused("the snapshot does not hold the rated message")
    rivals: list[ImportedTrace] = []
    for rival in _rivals(messages, message_id, data):
        with suppress(Refused):  # the rating is worth having without it
            rivals.append(_trace(where, row, messages, rival, ()))
    ids = [trace.external_id for trace in rivals if trace.response.strip()]
    compared = [rival for rival in ids if _thumb_of(messages, rival, row, thumbs) != thumb]
    against: dict[str, Any] = {"kind": "comparison", "choice": "left" if thumb else "right", **_common(row)}
    comparisons = (ImportedFeedback(other_external_id=rival, **against) for rival in compared)
    feedback = (_rating(row, data, thumb), *comparisons)
    return [*rivals, _trace(where, row, messages, message_id, feedback)]


def _thumb_of(messages: Mapping[str, Any], message_id: str, row: Mapping[str, Any], thumbs: Thumbs) -> float | None:
    """What the same person said of another answer: in this file, or as the chat remembers it."""
    remembered = obj(messages, message_id).get("annotation")
    value = _THUMBS.get(str(remembered.get("rating"))) if isinstance(remembered, dict) else None
    return thumbs.get((text(row, "user_id"), message_id), value)


def _messages(row: Mapping[str, Any]) -> dict[str, Any]:
    """By id. Versions of Open WebUI put the history at different depths."""
    chat = obj(row, "snapshot")
    for _ in range(3):
        history = chat.get("history")
        if isinstance(history, dict):
            messages = history.get("messages")
            if isinstance(messages, list):
                whole = (message for message in messages if isinstance(message, dict))
                return {message["id"]: message for message in whole if isinstance(message.get("id"), str)}
            return messages if isinstance(messages, dict) else {}
        chat = obj(chat, "chat")
    raise Refused("the snapshot holds no history of messages")


def _trace(
    where: str,
    row: Mapping[str, Any],
    messages: Mapping[str, Any],
    message_id: str,
    feedback: tuple[ImportedFeedback, ...],
) -> ImportedTrace:
    meta, message = obj(row, "meta"), obj(messages, message_id)
    if message.get("role") != "assistant":
        raise Refused("the rated message is not an answer of the assistant")
    talk = chat.talk([*_prompt(row, messages, message), *messages_of(message)], "the chat")
    if not (talk.response.strip() or talk.tool_calls):
        raise Refused("the rated message is not an answer of the assistant: it says nothing")
    usage = obj(message, "usage")
    return replace(
        chat.trace(where, talk, feedback=feedback, external_id=message_id),
        session_id=identity(meta, "chat_id"),
        model_version=_model(message)[:200] or text(obj(row, "data"), "model_id")[:200],
        tokens_in=count(usage, "prompt_tokens"),
        tokens_out=count(usage, "completion_tokens"),
        occurred_at=moment(message, "timestamp"),
    )


def _model(message: Mapping[str, Any]) -> str:
    """In the arena the one that answered behind the arena's name."""
    return text(message, "selectedModelId") or text(message, "model")


def _prompt(row: Mapping[str, Any], messages: Mapping[str, Any], answer: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """From the first message to the one before the answer."""
    before: list[Mapping[str, Any]] = []
    parent = answer.get("parentId")
    while parent is not None:
        message = messages.get(parent) if isinstance(parent, str) else None
        if not isinstance(message, dict) or message.get("role") not in ("system", "user", "assistant"):
            raise Refused("the messages before the rated one are not all in the snapshot")
        if len(before) == LONGEST_CHAT:
            raise Refused(f"the chat has more than {LONGEST_CHAT} messages, or runs in a circle")
        before.append(message)
        parent = message.get("parentId")
    whole = obj(obj(row, "snapshot"), "chat")
    if system := text(obj(obj(whole, "chat") or whole, "params"), "system"):
        yield {"role": "system", "content": system}
    for message in reversed(before):
        spoken = {"role": message["role"], "content": text(message, "content")}
        yield from messages_of(message) if spoken["role"] == "assistant" else [spoken]


def _rating(row: Mapping[str, Any], data: Mapping[str, Any], thumb: float) -> ImportedFeedback:
    """The score from 1 to 10 says more than the thumb, unless it contradicts it."""
    details = obj(data, "details") or obj(row, "details")
    score = count(details, "rating") or 0
    fine = (score - 1) / 9 if 1 <= score <= 10 else None
    agrees = fine is not None and (fine > 0.5) == (thumb == 1)
    return ImportedFeedback(
        kind="rating",
        scale="score" if agrees else "thumb",
        value=fine if agrees else thumb,
        tags=tags(data.get("tags"), data.get("reason")),
        notes=notes(text(data, "comment")),
        **_common(row),
    )


def _rivals(messages: Mapping[str, Any], message_id: str, data: Mapping[str, Any]) -> list[str]:
    """The answers of the other models to the same message."""
    models, rated = data.get("sibling_model_ids"), obj(messages, message_id)
    if not isinstance(models, list):
        return []
    return [
        other_id
        for other_id, other in messages.items()
        if isinstance(other, dict)
        and other_id != message_id
        and other.get("parentId") == rated.get("parentId")
        and other.get("role") == "assistant"
        and _model(other) in models
        and len(other_id) <= 200
    ]


def _common(row: Mapping[str, Any]) -> dict[str, Any]:
    user = identity(row, "user_id")[:180]
    return {"rater": f"openwebui:{user}" if user else "openwebui", "rated_at": moment(row, "updated_at")}


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
