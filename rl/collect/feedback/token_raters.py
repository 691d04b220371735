"""How many people have judged an answer with keys that need tokens, and whether one more may."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID

from rl.collect.feedback.rating_rows import raters_by_token
from rl.collect.feedback.tokens import TokenSpent
from rl.models import Feedback


class TokenRaters:
    """Counts those of the answers that ``events`` with tokens are about, whose traces the caller has locked."""

    def __init__(self, events: Iterable[Feedback]) -> None:
        traces = {trace for event in events for trace, _ in _limits(event)}
        self._raters = raters_by_token(traces) if traces else {}

    def refusal(self, event: Feedback) -> TokenSpent | None:
        """None: it may be stored, and its rater is one of those who have judged from then on."""
        limits = list(_limits(event))
        for trace, most in limits:
            raters = self._raters.setdefault(trace, set())
            if event.rater not in raters and len(raters) >= most:
                return TokenSpent(most)
        for trace, _ in limits:
            self._raters[trace].add(event.rater)
        return None


def _limits(event: Feedback) -> Iterator[tuple[UUID, int]]:
    """The answers that it is about, and how many raters its tokens let each have; none without tokens."""
    for trace, most in zip((event.trace_id, event.other_trace_id), event.token_raters, strict=False):
        if trace is not None:
            yield trace, most
