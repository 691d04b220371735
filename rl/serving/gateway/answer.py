"""What a model says, put together from the pieces of a stream or taken from a whole completion.

Servers differ in how they write tool calls and parts of a text. OpenAI's clients add up whatever has the same index, and
make nonsense of names that come in each piece, of a call that is repeated at its end, or of two calls under one index. So
each piece is given back with what is new in it alone, under the place of its call: then they show what is stored.
"""

import json
import re
import time
from dataclasses import dataclass, field
from typing import Any, Final

from rl.base.messages import as_data
from rl.collect.limits import MAX_WHOLE_NUMBER
from rl.collect.otlp.messages import arguments_of, read_parts
from rl.collect.otlp.spans import Requested
from rl.serving.gateway.chat_request import parse_calls

_FORMS: Final = {"function": "arguments", "custom": "input"}
"""Where a call of each kind has its name and its text."""
_LEGACY: Final = "function_call"
_THOUGHTS: Final = ("reasoning_content", "reasoning")
"""Where llama.cpp and vLLM, and where Ollama and newer vLLM say what the model thinks."""
_HALVES: Final = re.compile("[\ud800-\udfff]")


@dataclass(slots=True)
class Call:
    number: int
    """In the list of calls."""
    id: str = ""
    name: str = ""
    arguments: str = ""
    """As it was written: JSON as a rule, and of a custom tool any text."""
    form: str = "function"


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
            arguments = inner[_FORMS[form]]
            inner[_FORMS[form]] = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        name, text = inner.get("name"), inner.get(_FORMS[form], "")
        piece = _Piece(_string(given.get("id")), _string(name), text or "", "type" in given)
        index = index if isinstance(index, int | str) else 0
        call = None if is_whole else self._find(index, piece)
        if call is None:
            call = Call(len(self.known), form=form)
            self.known.append(call)
        self._at[index] = call
        # a name may come in pieces; one that is there already is told again
        piece_name = "" if piece.name == call.name else piece.name
        is_told_again = bool(piece.id or piece.name or piece.has_type) and _repeats(call, piece)
        new = _Piece("" if call.id else piece.id, piece_name, "" if is_told_again else piece.text, piece.has_type)
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


def _repeats(call: Call, piece: _Piece) -> bool:
    return _is_whole(piece.text) and _parse(piece.text) == _parse(call.arguments)


def _is_whole(text: str) -> bool:
    return text.lstrip().startswith("{") and isinstance(_parse(text), dict)


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


@dataclass(slots=True)
class Choice:
    text: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: Calls = field(default_factory=Calls)
    finish_reason: str = ""

    def take(self, message: dict[str, Any], is_whole: bool = False) -> dict[str, Any]:
        """A delta, or a whole message; gives it back as OpenAI writes it."""
        if isinstance(message.get("content"), list):
            # its text as text, and what it thinks and calls where OpenAI's clients look for that
            parts = read_parts(message["content"])
            made = {**message, "content": parts.text}
            if parts.thoughts:
                made["reasoning_content"] = "".join(parts.thoughts)
            if parts.calls:
                made["tool_calls"] = [as_data(call.name, arguments_of(call), call.id) for call in parts.calls]
            message = made
        for name in ("content", "refusal"):
            _append(self.text, message.get(name))
        _append(self.thoughts, next((message[name] for name in _THOUGHTS if message.get(name)), None))
        return self.calls.take(message, is_whole)

    def tool_calls(self) -> list[Requested]:
        calls = [
            {"id": clean(call.id), call.form: {"name": clean(call.name), _FORMS[call.form]: clean(call.arguments)}}
            for call in self.calls.known
        ]
        return parse_calls({"tool_calls": calls})

    @property
    def says_something(self) -> bool:
        return bool(self.text or self.thoughts or self.calls.known or self.finish_reason)


@dataclass(slots=True)
class Answer:
    choices: dict[int, Choice] = field(default_factory=dict)
    usage: dict[str, Any] = field(default_factory=dict)
    first_at: float | None = None
    """``time.monotonic()`` of the first piece that says something."""
    complete: bool = False
    error: str = ""

    def take(self, piece: dict[str, Any]) -> dict[str, Any]:
        """A chunk of a stream, or a whole completion; gives it back as OpenAI writes it."""
        if isinstance(usage := piece.get("usage"), dict):
            self.usage = usage
        given = piece.get("choices")
        choices = given if isinstance(given, list) else ()
        taken = [self._take_choice(document) for document in choices if isinstance(document, dict)]
        if self.first_at is None and self.says_something:
            self.first_at = time.monotonic()
        return {**piece, "choices": taken} if taken else piece

    def _take_choice(self, document: dict[str, Any]) -> dict[str, Any]:
        index = document.get("index", 0)
        choice = self.choices.setdefault(index if isinstance(index, int) else 0, Choice())
        if isinstance(reason := document.get("finish_reason"), str):
            choice.finish_reason = clean(reason)[:100]
        name = "delta" if "delta" in document else "message"
        message = document.get(name)
        taken = choice.take(message if isinstance(message, dict) else {}, name == "message")
        return {**document, name: taken} if taken else document

    def tokens(self, name: str) -> int | None:
        """``prompt_tokens`` or ``completion_tokens``."""
        count = self.usage.get(name)
        fits = isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= MAX_WHOLE_NUMBER
        return count if fits else None

    @property
    def first(self) -> Choice:
        return self.choices.get(0, Choice())

    @property
    def says_something(self) -> bool:
        return any(choice.says_something for choice in self.choices.values())

    @property
    def is_finished(self) -> bool:
        """The model ended by itself or by a limit, each choice of it."""
        return bool(self.choices) and all(choice.finish_reason for choice in self.choices.values())


def clean(text: str) -> str:
    """Without what a database refuses. Halves of a character that came in two pieces are joined."""
    if _HALVES.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\x00", "")


def _append(pieces: list[str], piece: object) -> None:
    if isinstance(piece, str) and piece:
        pieces.append(piece)
