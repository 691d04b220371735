"""API keys in a terminal: options read, rows shown."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta
from typing import Any, Final

from django.utils import timezone
from django.utils.dateparse import parse_date
from rich.table import Table
from rich.text import Text

from rl.base.errors import UsageError
from rl.models import ApiKey

_SHOWN: Final = (
    "id",
    "name",
    "kind",
    "scopes",
    "start",
    "agent",
    "allowed_origins",
    "needs_tokens",
    "created_at",
    "last_used_at",
    "expires_at",
    "revoked_at",
)


def parts_of(text: str) -> list[str]:
    """The parts of a list that is written with commas, without empty ones."""
    return [part.strip() for part in text.split(",") if part.strip()]


def read_expiry(text: str) -> datetime | None:
    """``90d`` from now, or the first moment of a day like ``2027-01-31``; empty: never. Raises UsageError."""
    if not text:
        return None
    problem = UsageError(f"--expires {text!r} is neither a number of days like 90d nor a day like 2027-01-31")
    try:
        if days := re.fullmatch(r"(\d{1,5})d", text):
            return timezone.now() + timedelta(days=int(days[1]))
        day = parse_date(text)
    except ValueError:
        raise problem from None
    if day is None:
        raise problem
    return timezone.make_aware(datetime.combine(day, time.min))


def row_of(key: ApiKey) -> dict[str, Any]:
    return {name: getattr(key, name) for name in _SHOWN}


def table_of(keys: list[ApiKey]) -> Table:
    if not keys:
        return Table("no keys yet")
    table = Table()
    for heading in ("id", "name", "use", "days"):
        table.add_column(heading, overflow="fold")  # an origin that is cut off is of no use
    for key in keys:
        table.add_row(str(key.pk), *map(Text, (f"{key.name}\n{key.start}…", _use(key), _days(key))))
    return table


def _use(key: ApiKey) -> str:
    scopes = [", ".join(key.scopes)] if key.scopes else []
    tokens = ["needs tokens"] if key.needs_tokens else []
    return "\n".join([key.kind, *scopes, *([f"for {key.agent}"] if key.agent else []), *key.allowed_origins, *tokens])


def _days(key: ApiKey) -> str:
    days = {"made": key.created_at, "used": key.last_used_at, "expires": key.expires_at, "revoked": key.revoked_at}
    return "\n".join(f"{name} {moment:%Y-%m-%d}" for name, moment in days.items() if moment)
