"""Whether anybody here has a name, and who has one like it."""

from __future__ import annotations

from itertools import chain, islice

from django.contrib.auth.models import User

from rl.base.errors import UsageError
from rl.base.names import did_you_mean
from rl.forgetting import receipts
from rl.forgetting.files import has_waiting
from rl.forgetting.person import Person
from rl.forgetting.records import find_left, has_rows
from rl.models import Feedback, Trace

_MOST = 20_000
"""Names that are looked through for a near one."""


def require_somebody(person: Person) -> None:
    """Raises UsageError where nothing here is theirs, and no receipt says that something was."""
    left = find_left(person)
    here = left.feedback or left.traces or person.user_ids or has_rows(person) or has_waiting(person)
    if not here and next(receipts.earlier(person), None) is None:
        where = f" at {person.agent.name}" if person.agent else ""
        name = person.names[0]
        raise UsageError(
            f"nobody is known as {name[:100]!r}{where}{did_you_mean(name, _names(), most=3)}: nothing was deleted"
        )


def _names() -> list[str]:
    raters = Feedback.objects.order_by("rater").values_list("rater", flat=True).distinct()
    units = Trace.objects.exclude(unit="").order_by("unit").values_list("unit", flat=True).distinct()
    accounts = (f"user:{name}" for name in User.objects.order_by("pk").values_list("username", flat=True))
    return [*dict.fromkeys(islice(chain(accounts, raters[:_MOST], units[:_MOST]), _MOST))]
