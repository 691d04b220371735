"""Who rates, as feedback names him."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.http import HttpRequest


def rater_of(username: str) -> str:
    return f"user:{username}"


def signed_in(request: HttpRequest) -> User:
    """For views behind ``login_required``."""
    assert isinstance(request.user, User)  # noqa: S101
    return request.user
