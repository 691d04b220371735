"""Who did what. An event is a row that is written in the same transaction as what it describes: there is neither without
the other."""

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

from django.db.models import CharField, Model
from django.http import HttpRequest

from rl.base import logs
from rl.models import Agent, AuditEvent

Action = AuditEvent.Action
QUEUE = "queue"
"""The actor of what Ratchet does by itself."""


@dataclass(slots=True)
class Caller:
    """On whose behalf this thread works. ``actor`` is filled in when an API key has been checked; else the person counts
    who is signed in."""

    actor: str = ""
    address: str = ""
    request: HttpRequest | None = None

    def name(self) -> str:
        if self.actor or self.request is None:
            return self.actor
        user = getattr(self.request, "user", None)
        return f"user:{user.get_username()}" if user is not None and user.is_authenticated else "anonymous"


_caller: ContextVar[Caller | None] = ContextVar("caller", default=None)
_process = Caller()
"""Where no caller is set: a worker of the queue says here what it is."""


def record(
    action: AuditEvent.Action, target: Model | str = "", *, agent: Agent | None = None, **details: Any
) -> AuditEvent:
    """``details``: JSON values; the run is added during which it happened."""
    caller = _current()
    owner = agent or (target if isinstance(target, Agent) else getattr(target, "agent", None))
    run = {"run": int(logs.run_id.get())} if logs.run_id.get() and "run" not in details else {}
    return AuditEvent.objects.create(
        action=action,
        actor=_shorten(actor(), "actor"),
        target=describe(target),
        agent=owner.name if isinstance(owner, Agent) else "",
        address=_shorten(caller.address, "address"),
        request_id=_shorten(logs.request_id.get(), "request_id"),
        details={**run, **details},
    )


def actor() -> str:
    """Who acts now, as events name him."""
    if name := _current().name():
        return name
    try:
        return f"command:{getpass.getuser()}"
    except (OSError, KeyError):  # a container's user may have a number only
        return "command"


def person() -> str:
    """Who acts now, in words for a page: a person's name, ``the key NAME``, ``NAME by a command``; empty: Ratchet itself."""
    kind, _, name = actor().partition(":")
    if kind == "user":
        return name
    if kind == "key":
        return f"the key {name.partition(' ')[2]}"
    if kind == "command":
        return f"{name} by a command" if name else "a command"
    return ""


@contextmanager
def acting_for(caller: Caller) -> Iterator[None]:
    token = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(token)


def name_caller(actor: str) -> None:
    """Names the caller of the current request, once its API key has been checked."""
    if caller := _caller.get():
        caller.actor = actor


def name_process(actor: str) -> None:
    """Names the actor of all that this process does from now on, outside of requests."""
    _process.actor = actor


def describe(target: Model | str) -> str:
    text = target if isinstance(target, str) else f"{target._meta.verbose_name} {target}"
    return _shorten(text, "target")


def _current() -> Caller:
    return _caller.get() or _process


def _shorten(text: str, field: str) -> str:
    """A cut text is better than a deed that fails because of its record."""
    length = cast(CharField, AuditEvent._meta.get_field(field)).max_length
    return text.replace("\0", "")[:length]
