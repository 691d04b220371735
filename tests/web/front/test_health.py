import asyncio
import threading
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder

from rl.web.front import health
from rl.web.front.health import Health
from tests.web.front.server import Server

PATHS = ["/healthz", "/readyz"]


@pytest.mark.process
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("host", ["10.0.0.7", "10.0.0.7:8000", "web-7f9c", "%%%"])
def test_they_answer_under_any_name_of_the_machine(server: Server, path: str, host: str):
    answer = server.get(path, headers={"Host": host})
    assert (answer.status_code, answer.text) == (200, "ok\n")
    assert (answer.headers["content-type"], answer.headers["cache-control"]) == (
        "text/plain; charset=utf-8",
        "no-store",
    )
    assert "Traceback" not in server.log


@pytest.mark.process
@pytest.mark.parametrize("path", PATHS)
def test_they_only_allow_reading(server: Server, path: str):
    answer = server.post(path)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.database
def test_a_migrated_database_is_ready(db):
    assert health.problem() is None


@pytest.mark.database
def test_a_missing_migration_makes_it_not_ready(db):
    MigrationRecorder(connection).migration_qs.filter(app="rl").delete()
    assert "not applied" in (health.problem() or "")


def test_a_database_that_does_not_answer_makes_it_not_ready(db):
    def refuse(execute, sql, params, many, context):
        raise OperationalError("the disk is gone")

    with connection.execute_wrapper(refuse):
        assert health.problem() == "the database does not answer"


async def has_turn(seconds: float) -> bool:
    return True


def test_a_problem_is_said_and_however_many_ask_it_is_looked_for_once():
    looks = []

    async def ask() -> list[tuple[int, bytes]]:
        asked = Health(lambda: looks.append(1) or "the disk is full", has_turn)
        answers = await asyncio.gather(*(asked.answer("GET", "/readyz") for _ in range(20)))
        return [(answer.status, answer.body) for answer in answers]

    assert set(asyncio.run(ask())) == {(503, b"the disk is full\n")}
    assert looks == [1]


def test_a_look_that_hangs_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(health, "PATIENCE_SECONDS", 0.05)
    released = threading.Event()

    async def ask() -> tuple[int, int]:
        asked = Health(lambda: None if released.wait(60) else "", has_turn)
        ready, alive = await asked.answer("GET", "/readyz"), await asked.answer("GET", "/healthz")
        released.set()
        return ready.status, alive.status

    assert asyncio.run(ask()) == (503, 200)


def test_a_look_that_hangs_ends_with_the_site(monkeypatch):
    monkeypatch.setattr(health, "PATIENCE_SECONDS", 0.0)
    released = threading.Event()

    async def stop() -> set[asyncio.Task[Any]]:
        asked = Health(lambda: None if released.wait(60) else "", has_turn)
        await asked.answer("GET", "/readyz")
        await asked.stop()
        released.set()
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(stop()) == set()


@pytest.mark.process
@pytest.mark.parametrize("host", ["10.0.0.7", "evil.example", "a b", "", "127.0.0.1:x"])
def test_the_site_refuses_other_names_without_a_traceback(server: Server, host: str):
    answer = server.get("/login/", headers={"Host": host})
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:ratchet:problem:unknown-host")
    assert "is not in ALLOWED_HOSTS" in server.log
    assert "Traceback" not in server.log
