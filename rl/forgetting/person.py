"""Who is to be forgotten, by the names under which they are in the records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import Q
from django.utils.crypto import salted_hmac

from rl.base.errors import UsageError
from rl.models import Agent

_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Person:
    names: tuple[str, ...]
    """As raters and as users of the gateway: user:alice, device:…, invite:12, or as an application named them."""
    user_ids: tuple[int, ...]
    """Accounts of this site."""
    agent: Agent | None = None
    """The only agent whose records are theirs to be deleted; None: all."""

    @property
    def marks(self) -> list[str]:
        """A keyed hash of each name: the same in all receipts of one installation, and without its key nobody's."""
        return sorted(
            salted_hmac("rl.forgetting", name, algorithm="sha256").hexdigest()[:_DIGITS] for name in self.names
        )

    @property
    def invites(self) -> list[int]:
        numbers = (name.removeprefix("invite:") for name in self.names if name.startswith("invite:"))
        return [int(number) for number in numbers if number.isdecimal()]

    def of_agent(self, column: str = "agent") -> Q:
        return Q() if self.agent is None else Q(**{column: self.agent})


def find_person(rater: str, also: Sequence[str] = (), agent: Agent | None = None) -> Person:
    """Raises UsageError for an empty name. That nobody has said anything under a name is not an error: it may be gone."""
    names = tuple(dict.fromkeys(name.strip() for name in (rater, *also)))
    if not all(names):
        raise UsageError(
            "the name of a rater must not be empty: write it as the feedback list does, such as user:alice"
        )
    usernames = [name.removeprefix("user:") for name in names if name.startswith("user:")]
    accounts = User.objects.filter(username__in=usernames).order_by("pk").values_list("pk", flat=True)
    return Person(names, tuple(accounts), agent)
