"""Tokens for answers: whoever holds one was shown the answer, or serves the page that shows it.

A token names an answer, its agent and how many people may judge it, is signed with the site's SECRET_KEY, and is valid for
TRACE_TOKEN_DAYS. The reader of the page may see it: it lets him rate this one answer."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.core.signing import BadSignature, SignatureExpired, TimestampSigner

from rl.base.errors import UsageError
from rl.collect.feedback.rating_rows import raters_by_token
from rl.models import Feedback

MOST_RATERS: Final = 10_000
_SALT: Final = "ratchet.trace-token"


class TokenSpent(UsageError):
    """As many as the token lets have judged the answer."""

    def __init__(self, raters: int) -> None:
        people = "one rater" if raters == 1 else f"{raters} raters"
        super().__init__(f"the token is for {people}, and others have judged this answer; ask for one with more raters")


class TokenSubject(NamedTuple):
    """What a token speaks of; the answer need not be here yet."""

    trace_id: UUID
    agent_id: int
    raters: int = 1
    """So many may judge the answer, as often as they change their minds. At most MOST_RATERS."""


def validity() -> timedelta:
    return timedelta(days=settings.TRACE_TOKEN_DAYS)


def sign(subject: TokenSubject) -> str:
    raters = f".{subject.raters}" if subject.raters > 1 else ""
    return TimestampSigner(salt=_SALT).sign(f"{subject.agent_id}.{subject.trace_id.hex}{raters}")


def read(token: str) -> TokenSubject:
    """Raises UsageError: it expired, or this site never signed it."""
    try:
        text = TimestampSigner(salt=_SALT).unsign(token, max_age=validity())
    except SignatureExpired:
        raise UsageError("the token has expired") from None
    except BadSignature:
        raise UsageError("the token was not signed by this site") from None
    agent_id, trace_id, *raters = text.split(".")
    return TokenSubject(UUID(hex=trace_id), int(agent_id), *map(int, raters))


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
