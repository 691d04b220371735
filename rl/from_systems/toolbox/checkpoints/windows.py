"""Conversations without a time, in histories that are windows: each checkpoint holds the newest messages of a session, and
the next one begins somewhere in the middle of it. Here they get ids, so that the same conversation has the same one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rl.collect.capture.execution_trace import ExecutionTrace
from rl.from_systems.toolbox.checkpoints.conversations import BETWEEN_QUESTIONS, trace_id

_Words = tuple[str, str]
"""Query and answer."""


class _Match(NamedTuple):
    start: int
    length: int


class Session:
    """The conversations of one session, as far as the checkpoints that were looked at tell."""

    def __init__(self) -> None:
        self._words: list[_Words] = []
        self._ids: list[str] = []
        self._counts: Counter[_Words] = Counter()

    def identify(self, window: Sequence[ExecutionTrace]) -> None:
        """Sets the ids. What the window shares with what is known, in the same order, is the same; all else is new, also
        where somebody asked the same again and got the same answer."""
        words = [(trace.user_query, trace.final_response) for trace in window]
        self._complete(words)
        first, start, length = self._overlap(words)
        ids = self._ids[start : start + length]
        before = [self._new_id(trace, pair) for trace, pair in zip(window[:first], words, strict=False)]
        end = first + length
        after = [self._new_id(trace, pair) for trace, pair in zip(window[end:], words[end:], strict=True)]
        for trace, (query, _), identity in zip(window, words, before + ids + after, strict=True):
            trace.trace_id, trace.user_query = identity, query
        self._insert(start + length, words[end:], after)
        self._insert(start, words[:first], before)

    def _complete(self, words: list[_Words]) -> None:
        """The window may begin after the first of several questions that have one answer."""
        if not words or words[0] in self._counts:
            return
        query, answer = words[0]
        longer = (known for known in reversed(self._words) if known[1] == answer)
        words[0] = next((known for known in longer if known[0].endswith(BETWEEN_QUESTIONS + query)), words[0])

    def _overlap(self, words: list[_Words]) -> tuple[int, int, int]:
        """Where the common part begins in the window and in what is known, and its length."""
        later, earlier = longest_beginning(words, self._words), longest_beginning(self._words, words)
        if not max(later.length, earlier.length):
            return 0, len(self._words), 0
        return (0, *later) if later.length >= earlier.length else (earlier.start, 0, earlier.length)

    def _new_id(self, trace: ExecutionTrace, words: _Words) -> str:
        repeat = self._counts[words]
        self._counts[words] += 1
        return trace_id(trace.session_id, words[0], "", words[1], repeat)

    def _insert(self, at: int, words: list[_Words], ids: list[str]) -> None:
        self._words[at:at], self._ids[at:at] = words, ids


def longest_beginning(part: Sequence[_Words], whole: Sequence[_Words]) -> _Match:
    """Where in ``whole`` the longest beginning of ``part`` stands, the last of equally long ones, in linear time (Gusfield's
    Z values)."""
    items: list[_Words | None] = [*part, None, *whole]
    lengths, left, right = [0] * len(items), 0, 0
    best = _Match(0, 0)
    for at in range(1, len(items)):
        length = min(lengths[at - left], right - at) if at < right else 0
        while at + length < len(items) and items[length] == items[at + length]:
            length += 1
        lengths[at] = length
        if at + length > right:
            left, right = at, at + length
        if at > len(part) and length >= max(best.length, 1):
            best = _Match(at - len(part) - 1, length)
    return best
