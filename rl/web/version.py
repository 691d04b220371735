"""What every page may show of this installation."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest


def version(request: HttpRequest) -> dict[str, str]:
    """A context processor."""
    return {"ratchet_version": settings.VERSION}
