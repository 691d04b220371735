"""How many wrong passwords are let through in ``AXES_COOLOFF_TIME``, and who is kept apart from whom.

django-axes counts rows of failures, by one number for all; here a single name from a single address, a name from wherever,
and an address with whatever names have numbers of their own. See rl.web.devices for browsers that are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from axes.attempts import get_cool_off_threshold
from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt
from django.conf import settings
from django.db.models import QuerySet, Sum
from django.http import HttpRequest
from django.utils import timezone

from rl.web.devices import known_device

PER_PAIR: Final = settings.AXES_FAILURE_LIMIT
"""Wrong passwords for one name from one address, or from one browser that it was signed in with before."""
PER_NAME: Final = 4 * PER_PAIR
"""Wrong passwords for one name, wherever they come from: many addresses do not help to guess one password."""
PER_ADDRESS: Final = 4 * PER_PAIR
"""Wrong passwords from one address, for whatever names: one password is not tried on everybody."""
NAME_LENGTH: Final = 150
"""The longest user name there is."""

Credentials = dict[str, str]


@dataclass(frozen=True, slots=True)
class Limit:
    where: dict[str, str | None]
    """Columns of the table of failures."""
    failures: int

    def rows(self) -> QuerySet[AccessAttempt]:
        return AccessAttempt.objects.filter(**self.where)


def name_tried(request: HttpRequest, credentials: Credentials | None) -> str:
    """A longer one belongs to nobody, but must fit into the table of failures."""
    return str((credentials or request.POST).get("username") or "")[:NAME_LENGTH]


def limits(request: Any, credentials: Credentials | None) -> list[Limit]:
    """The limits that hold for this try; the first is the one that a right password clears."""
    name, address = name_tried(request, credentials), request.axes_ip_address
    if device := known_device(request, name):
        return [Limit({"username": name, "user_agent": device}, PER_PAIR)]
    everywhere = [Limit({"username": name, "ip_address": address}, PER_PAIR), Limit({"username": name}, PER_NAME)]
    return [*everywhere, Limit({"ip_address": address}, PER_ADDRESS)] if address else everywhere


class SignInLimits(AxesDatabaseHandler):
    """Named by AXES_HANDLER."""

    def get_failures(self, request: Any, credentials: Credentials | None = None) -> int:
        """Failures that count towards the limit that is nearest, scaled to AXES_FAILURE_LIMIT, which axes compares with."""
        since = get_cool_off_threshold(request)
        return max(_failures(limit, since) * PER_PAIR // limit.failures for limit in limits(request, credentials))

    def user_login_failed(self, sender: Any, credentials: Credentials, request: Any = None, **kwargs: Any) -> None:
        """Browsers are told apart only where they are known: what others say of themselves would make a row for each lie."""
        if request is not None:
            request.axes_user_agent = known_device(request, name_tried(request, credentials))
        super().user_login_failed(sender, credentials, request, **kwargs)

    def reset_user_attempts(self, request: Any, credentials: Credentials | None = None) -> int:
        """Only those of this name at this address: an account of one's own must not clear what was tried on others."""
        return limits(request, credentials)[0].rows().delete()[0]


def lock_ends(request: Any, credentials: Credentials | None) -> datetime:
    """When enough failures will be too old to count that another try is let through."""
    since = get_cool_off_threshold(request)
    return max((_end(limit, since) for limit in limits(request, credentials)), default=timezone.now())


def _failures(limit: Limit, since: datetime) -> int:
    return limit.rows().filter(attempt_time__gte=since).aggregate(sum=Sum("failures_since_start"))["sum"] or 0


def _end(limit: Limit, since: datetime) -> datetime:
    recent = limit.rows().filter(attempt_time__gte=since).order_by("attempt_time")
    rows = list(recent.values_list("attempt_time", "failures_since_start"))
    counting = sum(count for _, count in rows)
    if counting < limit.failures:
        return since + settings.AXES_COOLOFF_TIME
    for time, count in rows:
        counting -= count
        if counting < limit.failures:
            return time + settings.AXES_COOLOFF_TIME
    return timezone.now()
