"""Tokens for answers: whoever holds one was shown the answer, or serves the page that shows it.

A token names an answer and its agent, is signed with the site's SECRET_KEY, and is valid for TRACE_TOKEN_DAYS. It is no
secret from the reader of the page: it lets him rate this one answer.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.core.signing import BadSignature, SignatureExpired, TimestampSigner

from rl.base.errors import UsageError

_SALT: Final = "ratchet.trace-token"


class Subject(NamedTuple):
    """What a token speaks of; the answer need not be here yet."""

    trace_id: UUID
    agent_id: int


def validity() -> timedelta:
    return timedelta(days=settings.TRACE_TOKEN_DAYS)


def sign(subject: Subject) -> str:
    return TimestampSigner(salt=_SALT).sign(f"{subject.agent_id}.{subject.trace_id.hex}")


def read(token: str) -> Subject:
    """Raises UsageError: it expired, or this site never signed it."""
    try:
        text = TimestampSigner(salt=_SALT).unsign(token, max_age=validity())
    except SignatureExpired:
        raise UsageError("the token has expired") from None
    except BadSignature:
        raise UsageError("the token was not signed by this site") from None
    agent_id, _, trace_id = text.partition(".")
    return Subject(UUID(hex=trace_id), int(agent_id))
