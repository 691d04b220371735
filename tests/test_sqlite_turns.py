"""Transactions on SQLite begin in the order in which they were asked for."""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path

import pytest
from django.db import IntegrityError, OperationalError, connection

from backend.sqlite3 import base
from backend.sqlite3.base import DatabaseWrapper, Turns
from rl.faults import DATABASE_GONE, fault_of
from tests.waiting import until

pytestmark = pytest.mark.django_db
LONG = 60.0


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Callable[[float], DatabaseWrapper]]:
    """Makes connections to a database of the test's own, with a patience in seconds."""
    made: list[DatabaseWrapper] = []

    def make(patience: float = LONG) -> DatabaseWrapper:
        options = {"transaction_mode": "IMMEDIATE", "timeout": patience, "check_same_thread": False}
        wrapper = DatabaseWrapper({**_settings(), "NAME": tmp_path / "x.sqlite3", "OPTIONS": options}, "other")
        wrapper.inc_thread_sharing()
        with wrapper.cursor() as cursor:
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.execute("CREATE TABLE IF NOT EXISTS words (word TEXT)")
        made.append(wrapper)
        return wrapper

    yield make
    for wrapper in made:
        wrapper.close()


def _settings() -> dict:
    return deepcopy({name: value for name, value in connection.settings_dict.items() if name != "OPTIONS"})


def begin(wrapper: DatabaseWrapper) -> None:
    wrapper.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)


def commit(wrapper: DatabaseWrapper) -> None:
    wrapper.commit()
    wrapper.set_autocommit(True)


def insert(wrapper: DatabaseWrapper, words: list[str]) -> None:
    with wrapper.cursor() as cursor:
        if len(words) == 1:
            cursor.execute("INSERT INTO words VALUES (%s)", words)
        else:
            cursor.executemany("INSERT INTO words VALUES (%s)", [[word] for word in words])


@pytest.mark.process
def test_who_has_waited_longest_is_next():
    turns, order = Turns(), []
    assert turns.take(0)
    threads = []
    for number in range(5):
        threads.append(threading.Thread(target=lambda number=number: (turns.take(LONG), order.append(number))))
        threads[-1].start()
        until(lambda number=number: len(turns._waiting) == number + 1)
    for number in range(5):
        turns.give()
        threads[number].join()
    assert order == [0, 1, 2, 3, 4]
    turns.give()
    assert turns.take(0)


def test_who_has_gone_is_passed_over():
    turns = Turns()
    assert turns.take(0)
    assert not turns.take(0.01)
    turns.give()
    assert turns.take(0)


@pytest.mark.process
def test_transactions_of_a_process_begin_in_the_order_in_which_they_were_asked_for(connect):
    first, order = connect(), []
    begin(first)
    threads = []

    def write(wrapper: DatabaseWrapper, number: int) -> None:
        begin(wrapper)
        order.append(number)
        commit(wrapper)

    for number in range(4):
        threads.append(threading.Thread(target=write, args=(connect(), number)))
        threads[-1].start()
        until(lambda number=number: len(first._turn._waiting) == number + 1)
    commit(first)
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3]
    assert first._turn is None


@pytest.mark.parametrize("write", [begin, "one", "many"])
def test_who_writes_waits_until_another_process_has_ended_its_transaction(connect, tmp_path: Path, write, monkeypatch):
    here, pauses = connect(), []
    there = sqlite3.connect(tmp_path / "x.sqlite3", isolation_level=None)
    there.execute("BEGIN IMMEDIATE")

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            there.execute("COMMIT")

    monkeypatch.setattr(base.time, "sleep", pause)
    if write is begin:
        begin(here)
        assert here.connection.in_transaction
        commit(here)
    else:
        insert(here, ["a", "b"][: 1 if write == "one" else 2])
    assert pauses == [base.LOOK_SECONDS] * 3
    there.close()


def test_many_rows_are_written_all_or_none(connect):
    here = connect()
    with here.cursor() as cursor:
        cursor.execute("CREATE UNIQUE INDEX once ON words (word)")
    with pytest.raises(IntegrityError):
        insert(here, ["a", "b", "a"])
    with here.cursor() as cursor:
        assert cursor.execute("SELECT count(*) FROM words").fetchone() == (0,)
    insert(here, ["a", "b"])
    begin(here)
    insert(here, ["c"])
    commit(here)


def test_sqlite_itself_does_not_wait(connect):
    """While it waits, its connection is locked, and the garbage collector with it, which holds every thread."""
    with connect().cursor() as cursor:
        assert cursor.execute("PRAGMA busy_timeout").fetchone() == (0,)


@pytest.mark.process
@pytest.mark.parametrize("is_here", [True, False])
def test_a_database_that_stays_locked_is_a_fault_and_leaves_the_turn_to_others(connect, tmp_path: Path, is_here: bool):
    hasty, other = connect(0.05), connect()
    there = sqlite3.connect(tmp_path / "x.sqlite3", isolation_level=None)
    if is_here:
        begin(other)
    else:
        there.execute("BEGIN IMMEDIATE")
    with pytest.raises(OperationalError) as refused:
        begin(hasty)
    assert fault_of(refused.value) == DATABASE_GONE
    with pytest.raises(OperationalError):
        insert(hasty, ["a"])
    if is_here:
        commit(other)
    else:
        there.execute("COMMIT")
    there.close()
    begin(hasty)
    commit(hasty)


def test_a_transaction_that_is_rolled_back_and_a_connection_that_is_closed_give_their_turn(connect):
    first, second = connect(), connect(0)
    begin(first)
    first.rollback()
    first.set_autocommit(True)
    begin(second)
    commit(second)
    begin(first)
    first.close()
    begin(second)
    commit(second)


@pytest.mark.process
def test_a_process_that_was_forked_has_nobodys_turn(connect):
    begin(first := connect())
    assert base._TURNS
    if not (child := os.fork()):
        os._exit(bool(base._TURNS))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    commit(first)
