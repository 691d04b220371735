from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest
from django.db import OperationalError

from rl.serving.gateway import table
from rl.serving.gateway.routing import Snapshot


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> list[Snapshot | Exception]:
    """What the readings find, one after the other; the last one stays."""
    found: list[Snapshot | Exception] = [Snapshot()]

    def load() -> Snapshot:
        one = found.pop(0) if len(found) > 1 else found[0]
        if isinstance(one, Exception):
            raise one
        return one

    monkeypatch.setattr(table, "_load", load)
    return found


def with_table(work: Callable[[table.Table], Awaitable[None]]) -> None:
    async def started() -> None:
        one = table.Table()
        await one.start()
        try:
            await work(one)
        finally:
            await one.stop()

    asyncio.run(started())


def test_what_changes_is_seen_without_being_asked_for(database, monkeypatch):
    monkeypatch.setattr(table, "REFRESH_SECONDS", 0.01)
    first, second = Snapshot(), Snapshot()
    database[:] = [first, second]

    async def work(one: table.Table) -> None:
        assert one.snapshot is first
        async with asyncio.timeout(20):
            while one.snapshot is first:
                await asyncio.sleep(0.01)
        assert one.snapshot is second

    with_table(work)


def test_a_database_that_refuses_leaves_the_last_snapshot_in_use_and_is_told_once(database, monkeypatch, caplog):
    monkeypatch.setattr(table, "FRESH_SECONDS", 0.0)
    first, later = Snapshot(), Snapshot()
    database[:] = [first, OperationalError("database is locked"), OperationalError("database is locked"), later]

    async def work(one: table.Table) -> None:
        assert [await one.fresh() for _ in range(3)] == [first, first, later]

    with_table(work)
    assert caplog.text.count("the last known ones are used: database is locked") == 1


def test_what_was_read_just_now_is_fresh(database):
    first = Snapshot()
    database[:] = [first, OperationalError("nobody asks")]

    async def work(one: table.Table) -> None:
        assert await one.fresh() is first

    with_table(work)
    assert len(database) == 1


def test_a_slow_database_holds_a_request_up_for_a_while_only(database, monkeypatch):
    monkeypatch.setattr(table, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(table, "PATIENCE_SECONDS", 0.05)
    answered = threading.Event()

    async def work(one: table.Table) -> None:
        monkeypatch.setattr(table, "_load", lambda: answered.wait(20) and Snapshot())
        known = one.snapshot
        waiting = [one.fresh() for _ in range(10)]
        assert [each is known for each in await asyncio.gather(*waiting)] == [True] * 10
        answered.set()

    with_table(work)
