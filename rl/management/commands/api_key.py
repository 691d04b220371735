from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import CommandParser
from rich.table import Table

from rl.errors import UsageError
from rl.management.base import RatchetCommand, agent_named
from rl.models import ApiKey


class Command(RatchetCommand):
    help = "Make, list and revoke the keys of the API."

    def add_options(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="make a key; it is printed this once")
        create.add_argument("--name", required=True, help="who uses it, for people")
        create.add_argument("--kind", choices=ApiKey.Kind.values, default=ApiKey.Kind.SECRET)
        create.add_argument("--agent", help="the only agent that it is for; every agent if left out")
        create.add_argument("--allowed-origins", default="", help="for publishable keys: https://a.example,https://b")
        listing = actions.add_parser("list", help="all keys, newest first")
        revoke = actions.add_parser("revoke", help="refuse a key from now on")
        revoke.add_argument("id", type=int)
        for each in (create, listing, revoke):  # people write options last
            each.add_argument("--json", action="store_true", default=argparse.SUPPRESS)

    def run(self, **options: Any) -> None:
        getattr(self, f"_{options['action']}")(options)

    def _create(self, options: dict[str, Any]) -> None:
        origins = [origin.strip() for origin in options["allowed_origins"].split(",") if origin.strip()]
        agent = agent_named(options["agent"]) if options["agent"] else None
        key, text = ApiKey.create(name=options["name"], kind=options["kind"], agent=agent, allowed_origins=origins)
        note = f"Key {key.pk} ({key.name}, {key.kind}). It is shown this once; only its hash is kept."
        self.result({**_row(key), "key": text}, lines=(text, note))

    def _list(self, options: dict[str, Any]) -> None:
        rows = [_row(key) for key in ApiKey.objects.select_related("agent")]
        table = Table(*(rows[0] if rows else ["no keys yet"]))
        for row in rows:
            table.add_row(*(", ".join(cell) if isinstance(cell, list) else str(cell or "") for cell in row.values()))
        self.result({"keys": rows}, table)

    def _revoke(self, options: dict[str, Any]) -> None:
        key = ApiKey.objects.filter(pk=options["id"]).select_related("agent").first()
        if key is None:
            raise UsageError(f"there is no key {options['id']}; see 'api_key list'")
        key.revoke()
        key.refresh_from_db()
        self.result(_row(key), lines=(f"Key {key.pk} ({key.name}) is refused from now on.",))


def _row(key: ApiKey) -> dict[str, Any]:
    names = ("id", "name", "kind", "start", "agent", "allowed_origins", "created_at", "last_used_at", "revoked_at")
    return {name: getattr(key, name) for name in names}
