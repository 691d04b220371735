"""A database of another program is left as it is."""

import sqlite3
from pathlib import Path

import pytest
from django.db import connection

from rl.operations.unfit_databases import foreign_tables
from tests.commands.site import Site
from tests.ports import reserve_port

OCD = ("Decision", "Item", "Opus", "User", "_prisma_migrations")


def tables(site: Site) -> set[str]:
    return {name for (name,) in site.query("SELECT name FROM sqlite_master WHERE type = 'table'")}


@pytest.fixture
def elsewhere(tmp_path: Path) -> Site:
    """A site whose DATABASE_URL is that of another program."""
    site = Site(tmp_path)
    with sqlite3.connect(tmp_path / "db.sqlite3") as database:
        for name in OCD:
            database.execute(f'CREATE TABLE "{name}" (id TEXT)')
    return site


@pytest.mark.process
def test_nothing_is_made_in_the_database_of_another_program(elsewhere: Site):
    for command in (("migrate",), ("quickstart", "--no-serve", "--yes")):
        refusal = elsewhere.run(*command, expect=2).stderr
        assert "has tables of another program (Decision, Item, Opus, User, …) and none of Ratchet's" in refusal
        assert "Traceback" not in refusal
    assert tables(elsewhere) == set(OCD)


@pytest.mark.process
def test_it_may_be_shared_by_order_and_from_then_on(elsewhere: Site):
    elsewhere.run("migrate", "--verbosity", "0", DATABASE_IS_SHARED="1")
    assert {"rl_agent", *OCD} <= tables(elsewhere)
    elsewhere.run("migrate", "--verbosity", "0")


@pytest.mark.database
def test_our_own_tables_are_not_foreign(db):
    assert foreign_tables(connection) == []
    with connection.cursor() as cursor:
        cursor.execute('CREATE TABLE "Decision" (id integer)')
    assert foreign_tables(connection) == ["Decision"]


@pytest.fixture
def halfway(elsewhere: Site) -> Site:
    """A site whose database is of a Ratchet from before the first release, which had not all of its migrations."""
    elsewhere.run("migrate", "--verbosity", "0", DATABASE_IS_SHARED="1")
    elsewhere.change("DELETE FROM django_migrations WHERE app = 'rl' AND name > '0006'")
    return elsewhere


@pytest.mark.process
def test_a_database_that_stopped_halfway_before_the_first_release_is_left_as_it_is(halfway: Site):
    before = halfway.query("SELECT app, name FROM django_migrations ORDER BY id")
    for command in (("migrate",), ("serve", "--port", str(reserve_port()))):
        refusal = halfway.run(*command, expect=2).stderr
        assert "as of rl.0005_episodes" in refusal
        assert "Check out the release before, run 'manage.py migrate' there, and come back" in refusal
        assert "Traceback" not in refusal
    assert halfway.query("SELECT app, name FROM django_migrations ORDER BY id") == before
