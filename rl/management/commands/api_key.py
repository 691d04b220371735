"""Make, list, revoke."""

import re
from datetime import datetime, time, timedelta
from typing import Any, Final

from django.db import transaction
from django.utils import timezone
from django.utils.dateparse import parse_date
from rich.table import Table
from rich.text import Text

from rl.base.errors import UsageError
from rl.management.base import ActionsCommand
from rl.management.options import CommandOptions, argument, option, parts_of
from rl.models import Agent, ApiKey, usual_scopes
from rl.operations.keys import revoke


class CreateKeyOptions(CommandOptions):
    name: str = option(required=True, help="who uses it, for people")
    kind: str = option(choices=ApiKey.Kind.values, default=ApiKey.Kind.SECRET)
    agent: str | None = option(help="the only agent that it is for; every agent if left out")
    make_agent: bool = option(action="store_true", help="make the agent too if there is none of this name")
    allowed_origins: str = option(default="", help="for publishable keys: https://a.example,https://b.example")
    scopes: str | None = option(
        help=f"what it may do, of {','.join(ApiKey.Scope.values)}; a secret key ingest,read if left out, a publishable one "
        "nothing but rate, and chat if you say so"
    )
    expires: str = option(default="", help="when it is refused: 90d, or 2027-01-31; never if left out")
    needs_tokens: bool = option(
        action="store_true", help="a publishable key rates only with the answers' signed tokens"
    )


class RevokeKeyOptions(CommandOptions):
    id: int = argument(type=int)


class Command(ActionsCommand):
    help = "Make, list and revoke the keys of the API."
    actions = {
        "create": "make a key; it is printed this once",
        "list": "all keys, newest first",
        "revoke": "refuse a key from now on",
    }

    def _create(self, options: CreateKeyOptions) -> None:
        origins = parts_of(options.allowed_origins)
        if origins and options.kind == ApiKey.Kind.SECRET:
            raise UsageError("--allowed-origins is for publishable keys: a secret key does not belong into a page")
        scopes = usual_scopes() if options.scopes is None else parts_of(options.scopes)
        if options.scopes is not None and options.kind == ApiKey.Kind.PUBLISHABLE and scopes != [ApiKey.Scope.CHAT]:
            raise UsageError("a publishable key may only rate, and with --scopes chat ask its agent")
        if options.needs_tokens and options.kind == ApiKey.Kind.SECRET:
            raise UsageError("--needs-tokens is for publishable keys: whoever has a secret key sees the answers anyway")
        expiry = read_expiry(options.expires)
        with transaction.atomic():  # no agent without its key
            agent, is_new = _find_or_make_agent(options.agent, make=options.make_agent)
            key, text = ApiKey.create(
                name=options.name,
                kind=options.kind,
                agent=agent,
                allowed_origins=origins,
                scopes=scopes,
                expires_at=expiry,
                needs_tokens=options.needs_tokens,
            )
        note = f"Key {key.pk} ({key.name}, {key.kind}). It is shown this once; only its hash is kept."
        news = (f"Agent {agent} is new.",) if is_new else ()
        self.result({**row_of(key), "key": text, "agent_made": is_new}, lines=(text, note, *news))

    def _list(self) -> None:
        keys = list(ApiKey.objects.select_related("agent"))
        self.result({"keys": [row_of(key) for key in keys]}, table_of(keys))

    def _revoke(self, options: RevokeKeyOptions) -> None:
        key = ApiKey.objects.filter(pk=options.id).select_related("agent").first()
        if key is None:
            raise UsageError(f"there is no key {options.id}; see 'api_key list'")
        revoke(key)
        key.refresh_from_db()
        self.result(row_of(key), lines=(f"Key {key.pk} ({key.name}) is refused from now on.",))


def _find_or_make_agent(name: str | None, *, make: bool) -> tuple[Agent | None, bool]:
    if name is None:
        if make:
            raise UsageError("--make-agent needs the name of the agent: --agent NAME")
        return None, False
    try:
        return Agent.by_name(name), False
    except UsageError as unknown:
        if not make:
            raise UsageError(f"{unknown}; --make-agent makes it") from None
    agent = Agent.new(name)
    agent.full_clean()
    agent.save()
    return agent, True


_SHOWN: Final = (
    *("id", "name", "kind", "scopes", "start", "agent"),
    *("allowed_origins", "needs_tokens", "created_at", "last_used_at", "expires_at", "revoked_at"),
)


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
        use = [key.kind, ", ".join(key.scopes), f"for {key.agent}" if key.agent else "", *key.allowed_origins]
        use += ["needs tokens"] if key.needs_tokens else []
        dates = {"made": key.created_at, "used": key.last_used_at, "expires": key.expires_at, "revoked": key.revoked_at}
        days = (f"{name} {moment:%Y-%m-%d}" for name, moment in dates.items() if moment)
        texts = (f"{key.name}\n{key.start}…", "\n".join(filter(None, use)), "\n".join(days))
        table.add_row(str(key.pk), *map(Text, texts))
    return table
