"""What no command can take back, said plainly."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.db.models import Q

from rl.forgetting.person import Person
from rl.models import AuditEvent
from rl.operations.backup import backups

_ELSEWHERE = (
    "logs of the site and of servers before it, and files that were exported or copied elsewhere, are not looked at"
)


def find_remaining(person: Person) -> dict[str, Any]:
    """Counts of the rows that still name them, and the backups that were made until now."""
    targets = Q(actor__in=person.names)
    for name in person.names:
        targets |= Q(target__contains=name.removeprefix("user:"))
    return {
        "accounts": len(person.user_ids),
        "audit_events": AuditEvent.objects.filter(targets).count(),
        "admin_log_entries": LogEntry.objects.filter(user__in=person.user_ids).count(),
        "backups": [path.name for path in backups(settings.BACKUP_DIR)],
        "elsewhere": _ELSEWHERE,
    }
