"""What a model says in one answer, in parts that follow each other: thoughts, text, calls of tools."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from rl.serving.dialects.dialect import Chunk, Document

THOUGHTS, TEXT, CALL = "thoughts", "text", "call"
_THOUGHTS: Final = ("reasoning_content", "reasoning")
_TEXTS: Final = ("content", "refusal")


@dataclass(slots=True)
class AnswerPart:
    kind: str
    number: int
    """Among the parts of the answer, from 0."""
    text: str = ""
    """A call's arguments, as they were written."""
    name: str = ""
    """The tool's."""
    call_id: str = ""
    logprobs: list[Any] = field(default_factory=list)


class PartStep(Enum):
    BEGIN = auto()
    GO_ON = auto()
    END = auto()


class PartEvent(NamedTuple):
    step: PartStep
    part: AnswerPart
    piece: str = ""
    """What is new in it."""
    logprobs: Sequence[Any] = ()
    """Those of the piece."""


class PartReader:
    """Reads an answer from its chunks, each as ``Answer.take`` gives it back. One part is open at a time: while a call is
    told, what comes of others waits for the end, as servers may tell several calls in turns."""

    def __init__(self) -> None:
        self.parts: list[AnswerPart] = []
        """Those that have begun."""
        self.finish_reason = ""
        self.usage: dict[str, Any] = {}
        self._open: AnswerPart | None = None
        self._has_begun = False
        """The open one; a call begins with its arguments, as its name may come in pieces."""
        self._waiting: dict[Any, AnswerPart] = {}
        self._calls: dict[Any, AnswerPart] = {}

    def take(self, chunk: Chunk) -> Iterator[PartEvent]:
        if isinstance(usage := chunk.get("usage"), dict):
            self.usage = usage
        for choice in chunk.get("choices") or ():
            if choice.get("index", 0) == 0:
                self.finish_reason = choice.get("finish_reason") or self.finish_reason
                yield from self._take_delta(choice.get("delta") or {}, _logprobs_of(choice))

    def end(self) -> Iterator[PartEvent]:
        yield from self._close()
        for part in self._waiting.values():
            self._open, self._has_begun = part, False
            part.number = len(self.parts)
            yield from self._begin()
            if part.text:
                yield PartEvent(PartStep.GO_ON, part, part.text)
            yield from self._close()

    def _take_delta(self, delta: Mapping[str, Any], logprobs: list[Any]) -> Iterator[PartEvent]:
        for kind, names in ((THOUGHTS, _THOUGHTS), (TEXT, _TEXTS)):
            text = next((delta[name] for name in names if isinstance(delta.get(name), str) and delta[name]), "")
            if text:
                yield from self._say(kind, text, logprobs if kind == TEXT else [])
        calls = delta.get("tool_calls") or [
            {"index": 0, "function": call} for call in [delta.get("function_call")] if call
        ]
        for number, call in enumerate(calls):
            yield from self._call(call.get("index", number), call)

    def _say(self, kind: str, text: str, logprobs: list[Any]) -> Iterator[PartEvent]:
        if self._open is not None and self._open.kind == CALL:
            part = self._waiting.setdefault(kind, AnswerPart(kind, 0))
            part.text += text
            return
        if self._open is None or self._open.kind != kind:
            yield from self._close()
            self._open = AnswerPart(kind, len(self.parts))
            yield from self._begin()
        assert self._open is not None  # noqa: S101  it was opened above
        self._open.logprobs += logprobs
        yield from self._go_on(text, logprobs)

    def _call(self, index: Any, piece: Mapping[str, Any]) -> Iterator[PartEvent]:
        inner = piece.get("function") or piece.get("custom") or {}
        part = self._calls.get(index)
        if part is None:
            part = self._calls[index] = AnswerPart(CALL, 0)
            if self._open is not None and self._open.kind == CALL:
                self._waiting[index] = part
            else:
                yield from self._close()
                self._open, part.number = part, len(self.parts)
        part.call_id = part.call_id or piece.get("id") or ""
        part.name += inner.get("name") or ""
        text = inner.get("arguments", inner.get("input")) or ""
        if part is not self._open:
            part.text += text
        elif text:
            yield from self._begin()
            yield from self._go_on(text)

    def _begin(self) -> Iterator[PartEvent]:
        if self._open is not None and not self._has_begun:
            self._has_begun = True
            if self._open.kind == CALL:
                self._open.call_id = self._open.call_id or f"call_{self._open.number}"
            self.parts.append(self._open)
            yield PartEvent(PartStep.BEGIN, self._open)

    def _go_on(self, text: str, logprobs: Sequence[Any] = ()) -> Iterator[PartEvent]:
        assert self._open is not None  # noqa: S101  whoever goes on has begun
        self._open.text += text
        yield PartEvent(PartStep.GO_ON, self._open, text, logprobs)

    def _close(self) -> Iterator[PartEvent]:
        if self._open is not None:
            yield from self._begin()
            yield PartEvent(PartStep.END, self._open)
        self._open, self._has_begun = None, False


def read_whole(completion: Document) -> PartReader:
    """The parts of a completion that is there whole."""
    reader = PartReader()
    first: dict[str, Any] = next(iter(completion.get("choices") or ()), {})
    message = first.get("message")
    delta = {**message} if isinstance(message, dict) else {}
    for _ in reader.take({**completion, "choices": [{**first, "index": 0, "delta": delta}]}):
        pass
    for _ in reader.end():
        pass
    return reader


def _logprobs_of(choice: Mapping[str, Any]) -> list[Any]:
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    return content if isinstance(content, list) else []
