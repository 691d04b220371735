from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

import pytest
from django.db import OperationalError

from rl.serving.gateway import table
from rl.serving.gateway.routing import Snapshot


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> list[Snapshot | Exception]:
    """What the readings find, one after the other; the last one stays."""
    found: list[Snapshot | Exception] = [Snapshot()]

    def load(reader: object) -> Snapshot:
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


def test_what_is_made_while_the_database_is_read_is_seen_by_who_asks_afterwards(monkeypatch):
    monkeypatch.setattr(table, "FRESH_SECONDS", 0.0)
    first, second, third = Snapshot(), Snapshot(), Snapshot()
    database, looked_up, go_on = [first], threading.Event(), threading.Event()

    def load(reader: object) -> Snapshot:
        seen = database[-1]
        looked_up.set()
        go_on.wait(20)
        return seen

    async def work(one: table.Table) -> None:
        monkeypatch.setattr(table, "_load", load)
        database.append(second)
        early = asyncio.create_task(one.fresh())
        await asyncio.to_thread(looked_up.wait, 20)
        database.append(third)
        late = asyncio.create_task(one.fresh())
        await asyncio.sleep(0.05)
        go_on.set()
        assert await early is second
        assert await late is third

    monkeypatch.setattr(table, "_load", lambda reader: first)
    with_table(work)


def test_who_asks_for_what_is_unknown_leads_to_few_readings(database, monkeypatch):
    monkeypatch.setattr(table, "FRESH_SECONDS", 0.3)
    first, second = Snapshot(), Snapshot()
    database[:] = [first, second, OperationalError("nobody asks")]

    async def work(one: table.Table) -> None:
        began = time.monotonic()
        assert [each is second for each in await asyncio.gather(*(one.fresh() for _ in range(100)))] == [True] * 100
        assert time.monotonic() - began > 0.2

    with_table(work)
    assert len(database) == 1


def test_a_slow_database_holds_a_request_up_for_a_while_only(database, monkeypatch):
    monkeypatch.setattr(table, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(table, "PATIENCE_SECONDS", 0.05)
    answered = threading.Event()

    async def work(one: table.Table) -> None:
        monkeypatch.setattr(table, "_load", lambda reader: answered.wait(20) and Snapshot())
        known = one.snapshot
        waiting = [one.fresh() for _ in range(10)]
        assert [each is known for each in await asyncio.gather(*waiting)] == [True] * 10
        answered.set()

    with_table(work)
