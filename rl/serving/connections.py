"""Connections to the database of threads that serve no request of Django's, which would look after theirs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import close_old_connections


@contextmanager
def own_connection() -> Iterator[None]:
    """One that is alive; it is not held longer than it may be."""
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()
