"""The tool calls of an answer, put together from pieces that servers write in many ways.

OpenAI's clients add up whatever has the same index, and make nonsense of names that come in each piece, of a call that is
repeated at its end, or of two calls under one index. So each piece is given back with what is new in it alone, under the
place of its call: then they show what is stored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

_FORMS: Final = {"function": "arguments", "custom": "input"}
"""Where a call of each kind has its name and its text."""
_LEGACY: Final = "function_call"


@dataclass(slots=True)
class Call:
    number: int
    """In the list of calls."""
    id: str = ""
    name: str = ""
    arguments: str = ""
    """As it was written: JSON as a rule."""


@dataclass(frozen=True, slots=True)
class _Piece:
    id: str
    name: str
    text: str
    has_type: bool
    """Pieces that only go on have none at most servers."""


@dataclass(slots=True)
class Calls:
    known: list[Call] = field(default_factory=list)
    _at: dict[Any, Call] = field(default_factory=dict)
    """By the server's own index: the call that goes on there."""

    def take(self, message: dict[str, Any], is_whole: bool) -> dict[str, Any]:
        """A delta, or a whole message; gives it back as OpenAI writes it."""
        given, legacy = message.get("tool_calls"), message.get(_LEGACY)
        if isinstance(given, list) and given:
            calls = [
                self._take(call, call.get("index", position), is_whole)
                for position, call in enumerate(given)
                if isinstance(call, dict)
            ]
            return {**message, "tool_calls": calls}
        if isinstance(legacy, dict):  # some servers say the same in both forms
            return {**message, _LEGACY: self._take({"function": legacy}, _LEGACY, is_whole)["function"]}
        return message

    def _take(self, given: dict[str, Any], index: Any, is_whole: bool) -> dict[str, Any]:
        form = "custom" if isinstance(given.get("custom"), dict) else "function"
        inner = {**given[form]} if isinstance(given.get(form), dict) else {}
        if inner.get(_FORMS[form]) is not None:
            inner[_FORMS[form]] = _as_text(inner[_FORMS[form]])
        name, text = inner.get("name"), inner.get(_FORMS[form], "")
        piece = _Piece(_string(given.get("id")), _string(name), text or "", "type" in given)
        index = index if isinstance(index, int | str) else 0
        call = None if is_whole else self._find(index, piece)
        if call is None:
            call = Call(len(self.known))
            self.known.append(call)
        self._at[index] = call
        new = _what_is_new(call, piece)
        call.id, call.name, call.arguments = call.id or new.id, call.name + new.name, call.arguments + new.text
        for field_name, old, now in (("name", piece.name, new.name), (_FORMS[form], piece.text, new.text)):
            if old != now:
                inner[field_name] = now
        if is_whole:
            return {**given, form: inner}
        kept = {name: value for name, value in given.items() if name != "id" or new.id == piece.id}
        return {**kept, "index": call.number, **({form: inner} if inner else {})}

    def _find(self, index: int | str, piece: _Piece) -> Call | None:
        """The call that the piece belongs to; None: it begins another one."""
        if call := self._at.get(index):
            return None if _begins_another(call, piece) else call
        if piece.id:
            same = next((known for known in reversed(self.known) if known.id == piece.id), None)
            return same if same and _repeats(same, piece) else None
        last = self.known[-1] if self.known else None  # some begin every call at 0 and go on where it should be
        return last if last and piece.text and not piece.name and not _is_whole(last.arguments) else None


def _begins_another(call: Call, piece: _Piece) -> bool:
    if piece.id and call.id and piece.id != call.id:
        return True
    if not piece.name or not call.name:
        return False
    if piece.name != call.name:
        return bool(call.arguments) or (piece.has_type and not call.id)
    return _is_whole(piece.text) and _is_whole(call.arguments) and not _repeats(call, piece)


def _what_is_new(call: Call, piece: _Piece) -> _Piece:
    """A name may come in pieces; one that is there already is told again."""
    name = "" if piece.name == call.name else piece.name
    is_told_again = bool(piece.id or piece.name or piece.has_type) and _repeats(call, piece)
    return _Piece("" if call.id else piece.id, name, "" if is_told_again else piece.text, piece.has_type)


def _repeats(call: Call, piece: _Piece) -> bool:
    return _is_whole(piece.text) and _parse(piece.text) == _parse(call.arguments)


def _is_whole(text: str) -> bool:
    return text.lstrip().startswith("{") and isinstance(_parse(text), dict)


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _as_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""
