"""Slots are shared among callers."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rl.serving.gateway import turns as module
from rl.serving.gateway.chat_request import ChatRequest
from rl.serving.gateway.exchange import Exchange
from rl.serving.gateway.refusals import Refusal
from rl.serving.gateway.routing import KnownAgent, KnownKey, Route, Served
from rl.serving.gateway.turns import Turns
from rl.serving.upstreams import Upstream

pytestmark = pytest.mark.usefixtures("data_dir")


def exchange(key: int, slots: int = 2, user: int | None = None) -> Exchange:
    served = Served(1, "v1", Upstream("http://x/v1", "m", slots=slots))
    agent = KnownAgent(1, "chat", None, "", 64)  # type: ignore[arg-type]
    return Exchange(KnownKey(key, True, None, user_id=user), ChatRequest({}, "chat", (), "", ""), Route(agent, served))


class Crowd:
    """Callers who hold what they get until they are told to go."""

    def __init__(self) -> None:
        self.turns, self.served = Turns(), list[str]()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Event] = {}

    async def come(self, *names: str, slots: int = 2) -> None:
        """``a1`` is the first request of the caller a."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._stay(name, slots))
            await rest()

    async def go(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
            await rest()

    async def lose_patience(self, name: str) -> None:
        self._tasks[name].cancel()
        await rest()

    async def _stay(self, name: str, slots: int) -> None:
        async with self.turns.of(exchange(ord(name[0]), slots)):
            self.served.append(name)
            await self._ends[name].wait()


async def rest() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def play(scene: Coroutine[Any, Any, None]) -> None:
    async def within_a_minute() -> None:
        async with asyncio.timeout(60):
            await scene

    asyncio.run(within_a_minute())


def test_one_caller_alone_has_all_slots_and_no_more():
    async def scene() -> None:
        crowd = Crowd()
        await crowd.come("a1", "a2", "a3")
        assert crowd.served == ["a1", "a2"]
        await crowd.go("a1")
        assert crowd.served == ["a1", "a2", "a3"]

    play(scene())


def test_whoever_has_least_is_next_however_many_another_sent_before():
    async def scene() -> None:
        crowd = Crowd()
        await crowd.come("a1", "a2", "a3", "a4", "a5", "b1", "c1", "b2")
        await crowd.go("a1", "a2", "b1")
        assert crowd.served == ["a1", "a2", "b1", "c1", "a3"]
        await crowd.go("c1", "a3")
        assert crowd.served[5:] == ["b2", "a4"]

    play(scene())


def test_a_slot_is_kept_for_a_minute_for_whoever_has_nothing_under_way(monkeypatch: pytest.MonkeyPatch):
    async def scene() -> None:
        crowd = Crowd()
        await crowd.come("b1", slots=3)
        await crowd.go("b1")
        await crowd.come("a1", "a2", "a3", slots=3)
        assert crowd.served == ["b1", "a1", "a2"]
        await crowd.come("b2", slots=3)
        assert crowd.served == ["b1", "a1", "a2", "b2"]
        await crowd.go("b2")
        monkeypatch.setattr(module, "KEPT_SECONDS", -1.0)
        await crowd.come("a4", slots=3)
        assert crowd.served[4:] == ["a3"]

    play(scene())


def test_a_caller_has_all_slots_but_one_in_all_processes_together():
    """Each process has turns of its own. Behind them the server would let others wait."""

    async def scene() -> None:
        one, other = Crowd(), Crowd()
        await one.come("b1")
        await one.go("b1")
        await one.come("a1")
        await other.come("a2", "b2")
        assert (one.served, other.served) == (["b1", "a1"], ["b2"])
        await one.go("a1")
        await asyncio.sleep(5 * module.LOOK_SECONDS)
        assert other.served == ["b2", "a2"]

    play(scene())


def test_with_one_slot_callers_take_turns():
    async def scene() -> None:
        crowd = Crowd()
        await crowd.come("a1", "a2", "a3", "b1", "b2", slots=1)
        await crowd.go("a1", "b1", "a2", "b2", "a3")
        assert crowd.served == ["a1", "b1", "a2", "b2", "a3"]

    play(scene())


def test_who_goes_away_while_he_waits_or_is_called_leaves_no_hole():
    async def scene() -> None:
        crowd = Crowd()
        await crowd.come("a1", "b1", "c1", slots=1)
        await crowd.lose_patience("b1")
        crowd._ends["a1"].set()
        await rest()
        assert crowd.served == ["a1", "c1"]
        await crowd.come("d1", "e1", slots=1)
        server = next(iter(crowd.turns._servers.values()))
        crowd._ends["c1"].set()
        await asyncio.sleep(0)
        crowd._tasks["d1"].cancel()  # called or not: the slot goes on to the next
        await rest()
        assert crowd.served[-1] == "e1"
        await crowd.go("e1")
        assert not server.running
        assert not server._waiting

    play(scene())


def test_persons_without_a_key_are_callers_of_their_own():
    assert exchange(1).key.caller != exchange(2).key.caller
    assert KnownKey.of_person(1, 1).caller != KnownKey.of_person(2, 1).caller


def test_who_has_too_many_waiting_is_told_to_come_back_and_others_are_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MOST_WAITING", 2)
    monkeypatch.setattr(module, "MOST_WAITING_OF_ALL", 3)

    async def scene() -> None:
        crowd = Crowd()
        await crowd.come("a1", "a2", "a3", slots=1)
        with refusing(429):
            await crowd.turns.take(exchange(ord("a"), 1))
        await crowd.come("b1", slots=1)
        with refusing(503):
            await crowd.turns.take(exchange(ord("c"), 1))
        await crowd.go("a1", "b1", "a2", "a3")
        assert sorted(crowd.served) == ["a1", "a2", "a3", "b1"]

    play(scene())


def test_an_answer_that_takes_too_long_and_a_turn_that_does_not_come_end(settings):
    settings.GATEWAY_TIMEOUT = 0.05

    async def scene() -> None:
        turns = Turns()
        await turns.take(exchange(1, 1))
        with refusing(503):
            await turns.take(exchange(2, 1))
        turns.leave(exchange(1, 1))
        with refusing(504):
            async with turns.of(exchange(2, 1)):
                await asyncio.sleep(60)
        async with turns.of(exchange(1, 1)):
            assert [upstream.model for upstream in turns.busy()] == ["m"]
        assert turns.busy() == []

    play(scene())


@contextmanager
def refusing(status: int) -> Iterator[None]:
    with pytest.raises(Refusal) as caught:
        yield
    assert caught.value.status == status
    assert status == 504 or caught.value.headers["Retry-After"] == "5"
