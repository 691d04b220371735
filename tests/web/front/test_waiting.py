"""``?wait=true`` holds no thread, and nothing once the client has left."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from rl.models import TrainingRun
from rl.web.front import answers as front_answers
from rl.web.front.answers import EndsOfRuns
from tests.web.front.server import Server, head

pytestmark = pytest.mark.database


WAITERS = 15


def path(server: Server) -> str:
    return f"/api/policies/support-chat/runs/{server.known['run']}/"


def waiters(server: Server, stack: ExitStack) -> list[socket.socket]:
    """Connections on which it is waited."""
    asked = head("GET", f"{path(server)}?wait=true", f"Authorization: {server.authorization['Authorization']}")
    return [stack.enter_context(server.connect(asked)) for _ in range(WAITERS)]


@pytest.mark.process
def test_the_site_answers_beside_those_who_wait(server: Server):
    with ExitStack() as stack:
        waiters(server, stack)
        for _ in range(3):
            assert server.get(path(server), headers=server.authorization).json()["status"] == "running"
            assert server.get("/login/").status_code == 200


@pytest.mark.process
def test_each_who_waits_is_answered_when_the_run_has_ended(server: Server):
    server.site.change("UPDATE rl_trainingrun SET state = 'running'")
    with ThreadPoolExecutor(WAITERS) as pool:
        asked = [
            pool.submit(server.get, path(server), params={"wait": "true"}, headers=server.authorization)
            for _ in range(WAITERS)
        ]
        assert server.get("/login/").status_code == 200
        server.site.change("UPDATE rl_trainingrun SET state = 'failed', error = 'no luck'")
        answers = [each.result() for each in asked]
    server.site.change("UPDATE rl_trainingrun SET state = 'running', error = ''")
    assert {(a.status_code, a.json()["status"], a.json()["error"]) for a in answers} == {(200, "failed", "no luck")}
    assert {a.headers["location"] for a in answers} == {path(server)}


class Ends(EndsOfRuns):
    @property
    def awaited(self) -> dict[int, Any]:
        return dict(self._awaited)


@pytest.fixture
def run(transactional_db, agent) -> TrainingRun:
    return TrainingRun.objects.create(agent=agent, method="dpo")


def test_waiting_ends_with_what_is_known(run: TrainingRun, monkeypatch):
    monkeypatch.setattr(front_answers, "LONGEST_WAIT", 0.1)

    async def wait() -> bool:
        return await Ends().wait(run.pk)

    assert asyncio.run(wait()) is False


def test_nobody_looks_any_more_when_the_site_has_stopped(run: TrainingRun):
    async def stop() -> set[asyncio.Task[Any]]:
        ends = Ends()
        waiting = asyncio.create_task(ends.wait(run.pk))
        await asyncio.sleep(0)
        await ends.stop()
        return asyncio.all_tasks() - {asyncio.current_task(), waiting}

    assert asyncio.run(stop()) == set()


def test_who_left_is_forgotten_and_the_looking_stops(run: TrainingRun, monkeypatch):
    monkeypatch.setattr(front_answers, "LOOK_SECONDS", 0.01)

    async def leave() -> tuple[int, int]:
        ends = Ends()
        tasks = [asyncio.create_task(ends.wait(run.pk)) for _ in range(3)]
        await asyncio.sleep(0.05)
        before = len(ends.awaited[run.pk])
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert ends._looking is not None
        await asyncio.wait_for(ends._looking, 60)
        await ends.stop()
        return before, len(ends.awaited)

    assert asyncio.run(leave()) == (3, 0)
