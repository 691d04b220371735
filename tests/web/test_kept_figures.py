"""Figures of large agents are counted once in a while, those of others at each look."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from rl.models import Agent
from rl.web import kept_figures
from rl.web.kept_figures import KINDS, LARGE, keep
from tests.dataset_builder.ratings import rated


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    kept_figures._kept.clear()
    yield
    kept_figures._kept.clear()


def wait_for_counting() -> None:
    for thread in threading.enumerate():
        if thread.name == "figures":
            thread.join()


def test_few_answers_are_counted_at_each_look() -> None:
    counts = iter([1, 2])
    assert [keep("few", lambda: next(counts), lambda count: LARGE - 1) for _ in range(2)] == [1, 2]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(kept_figures, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_many_answers_are_counted_behind_a_look_when_the_time_is_over(clock: list[float]) -> None:
    counts = iter([1, 2])
    seen = []
    for at in (0.0, kept_figures.SECONDS - 1, kept_figures.SECONDS):
        clock[0] = at
        seen.append(keep("many", lambda: next(counts), lambda count: LARGE))
    assert seen == [1, 1, 1]
    wait_for_counting()
    assert keep("many", lambda: next(counts), lambda count: LARGE) == 2


def test_old_figures_are_shown_to_nobody(clock: list[float]) -> None:
    counts = iter([1, 2])
    assert keep("many", lambda: next(counts), lambda count: LARGE) == 1
    clock[0] = kept_figures.OLDEST
    assert keep("many", lambda: next(counts), lambda count: LARGE) == 2


def test_figures_that_cannot_be_counted_anew_stay_for_a_while(clock: list[float]) -> None:
    assert keep("many", lambda: 1, lambda count: LARGE) == 1
    clock[0] = kept_figures.SECONDS
    assert keep("many", lambda: 1 // 0, lambda count: LARGE) == 1
    wait_for_counting()
    assert keep("many", lambda: 3, lambda count: LARGE) == 1
    wait_for_counting()
    assert keep("many", lambda: 4, lambda count: LARGE) == 3


@pytest.mark.django_db
def test_what_answers_are_is_known_anew_behind_a_correction(agent: Agent, django_assert_num_queries) -> None:
    def kind_after(number: int) -> str:
        rated(agent, f"Question {number}?", ("billing", "returns")[number % 2], 1)
        return KINDS.now(agent).kind

    assert kind_after(0) == "free"
    for number in range(1, 40):
        kind_after(number)
    assert KINDS.now(agent).kind == "closed"
    with django_assert_num_queries(1):
        KINDS.now(agent)
