"""An installation on PostgreSQL, with a database of its own, for tests that start real processes."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import psycopg

from tests.commands.site import Site


@dataclass(frozen=True)
class OnPostgres(Site):
    url: str

    def environment(self, **more: str) -> dict[str, str]:
        return super().environment(**{"DATABASE_URL": self.url, **more})

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url) as database:
            return database.execute(sql.replace("?", "%s"), parameters).fetchall()

    def change(self, sql: str, *parameters: Any) -> None:
        with psycopg.connect(self.url) as database:
            database.execute(sql.replace("?", "%s"), parameters)


@contextmanager
def made(server: str, template: str = "template1") -> Iterator[str]:
    """The URL of a new database on the server, which goes with the test; a copy of ``template``."""
    name = f"ratchet_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as database:
        database.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield urlsplit(server)._replace(path=f"/{name}").geturl()
        finally:
            database.execute(f"DROP DATABASE {name} WITH (FORCE)")
