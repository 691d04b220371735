from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction
from rich.table import Table
from rich.text import Text

from rl.errors import UsageError
from rl.management.base import RatchetCommand
from rl.models import Agent, ApiKey


class Command(RatchetCommand):
    help = "Make, list and revoke the keys of the API."

    def add_options(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="make a key; it is printed this once")
        create.add_argument("--name", required=True, help="who uses it, for people")
        create.add_argument("--kind", choices=ApiKey.Kind.values, default=ApiKey.Kind.SECRET)
        create.add_argument("--agent", help="the only agent that it is for; every agent if left out")
        create.add_argument(
            "--make-agent", action="store_true", help="make the agent too if there is none of this name"
        )
        create.add_argument(
            "--allowed-origins", default="", help="for publishable keys: https://a.example,https://b.example"
        )
        listing = actions.add_parser("list", help="all keys, newest first")
        revoke = actions.add_parser("revoke", help="refuse a key from now on")
        revoke.add_argument("id", type=int)
        for each in (create, listing, revoke):  # people write options last
            each.add_argument("--json", action="store_true", default=argparse.SUPPRESS)

    def run(self, **options: Any) -> None:
        getattr(self, f"_{options['action']}")(options)

    def _create(self, options: dict[str, Any]) -> None:
        origins = [origin.strip() for origin in options["allowed_origins"].split(",") if origin.strip()]
        if origins and options["kind"] == ApiKey.Kind.SECRET:
            raise UsageError("--allowed-origins is for publishable keys: a secret key does not belong into a page")
        with transaction.atomic():  # no agent without its key
            agent, made = _agent(options["agent"], make=options["make_agent"])
            key, text = ApiKey.create(name=options["name"], kind=options["kind"], agent=agent, allowed_origins=origins)
        note = f"Key {key.pk} ({key.name}, {key.kind}). It is shown this once; only its hash is kept."
        news = (f"Agent {agent} is new.",) if made else ()
        self.result({**_row(key), "key": text, "agent_made": made}, lines=(text, note, *news))

    def _list(self, options: dict[str, Any]) -> None:
        keys = list(ApiKey.objects.select_related("agent"))
        self.result({"keys": [_row(key) for key in keys]}, _table(keys))

    def _revoke(self, options: dict[str, Any]) -> None:
        key = ApiKey.objects.filter(pk=options["id"]).select_related("agent").first()
        if key is None:
            raise UsageError(f"there is no key {options['id']}; see 'api_key list'")
        key.revoke()
        key.refresh_from_db()
        self.result(_row(key), lines=(f"Key {key.pk} ({key.name}) is refused from now on.",))


def _agent(name: str | None, *, make: bool) -> tuple[Agent | None, bool]:
    """And whether it was made."""
    if name is None:
        if make:
            raise UsageError("--make-agent needs the name of the agent: --agent NAME")
        return None, False
    try:
        return Agent.named(name), False
    except UsageError as unknown:
        if not make:
            raise UsageError(f"{unknown}; --make-agent makes it") from None
    agent = Agent(name=name)
    agent.full_clean()
    agent.save()
    return agent, True


def _row(key: ApiKey) -> dict[str, Any]:
    names = ("id", "name", "kind", "start", "agent", "allowed_origins", "created_at", "last_used_at", "revoked_at")
    return {name: getattr(key, name) for name in names}


def _table(keys: list[ApiKey]) -> Table:
    if not keys:
        return Table("no keys yet")
    table = Table()
    for heading in ("id", "name", "use", "days"):
        table.add_column(heading, overflow="fold")  # an origin that is cut off is of no use
    for key in keys:
        table.add_row(str(key.pk), *map(Text, (f"{key.name}\n{key.start}…", _use(key), _days(key))))
    return table


def _use(key: ApiKey) -> str:
    return "\n".join([key.kind, *([f"for {key.agent}"] if key.agent else []), *key.allowed_origins])


def _days(key: ApiKey) -> str:
    days = {"made": key.created_at, "used": key.last_used_at, "revoked": key.revoked_at}
    return "\n".join(f"{name} {moment:%Y-%m-%d}" for name, moment in days.items() if moment)
