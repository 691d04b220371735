"""Writes that begin in the order in which they were asked for, and that nobody waits for inside SQLite.

SQLite lets one write at a time. Whoever finds it busy looks again after up to a tenth of a second, so that where many write,
some come too late again and again, for seconds. And it waits with the connection locked: Python's garbage collector, which
may end a statement of any connection and holds the interpreter while it does, then stops the whole process, with it the
thread that writes, until the wait is over. So SQLite is told not to wait; one thread of a process at a time asks it, and
asks often (docs/decisions/sqlite-settings.md).
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections import defaultdict, deque
from collections.abc import Callable
from threading import Event, Lock
from typing import Any, Final, TypeVar

from django.db.backends.sqlite3 import base
from django.db.utils import OperationalError


class Turns:
    def __init__(self) -> None:
        self._lock, self._is_taken = Lock(), False
        self._waiting: deque[Event] = deque()

    def take(self, seconds: float) -> bool:
        """Waits so long at the most. Whoever got True gives the turn back."""
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return True
            mine = Event()
            self._waiting.append(mine)
        return mine.wait(seconds) or self._leave(mine)

    def give(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._is_taken = False

    def _leave(self, mine: Event) -> bool:
        """Whether it became his turn at the last moment."""
        with self._lock:
            if not mine.is_set():
                self._waiting.remove(mine)
            return mine.is_set()


LOOK_SECONDS: Final = 0.002
"""Between two looks whether another process has ended its write."""
_TURNS: Final[defaultdict[str, Turns]] = defaultdict(Turns)
"""By the database's name. A process that was forked has none of its parent's."""
os.register_at_fork(after_in_child=_TURNS.clear)
Result = TypeVar("Result")


class DatabaseWrapper(base.DatabaseWrapper):
    _turn: Turns | None = None
    """Taken by the transaction that is open."""

    def get_new_connection(self, conn_params: Any) -> Any:
        made = super().get_new_connection(conn_params)
        made.execute("PRAGMA busy_timeout=0")
        return made

    def create_cursor(self, name: str | None = None) -> Cursor:  # noqa: ARG002  Django's
        cursor: Cursor = self.connection.cursor(factory=Cursor)
        cursor.database = self
        return cursor

    def wait_to(self, write: Callable[[], Result]) -> Result:
        """``write()``, as soon as nobody else writes. Raises sqlite3.OperationalError where the database stays busy for
        the ``timeout`` of its settings."""
        try:
            return write()
        except sqlite3.OperationalError as error:
            if self._turn is not None or not _tells_of_others(error):
                raise
        until, turn = self._until, self._turns
        has_taken = turn.take(self._patience)
        try:
            return _repeat(write, until)
        finally:
            if has_taken:
                turn.give()

    @property
    def _turns(self) -> Turns:
        return _TURNS[str(self.settings_dict["NAME"])]

    @property
    def _patience(self) -> float:
        return float(self.settings_dict["OPTIONS"].get("timeout", 5))

    @property
    def _until(self) -> float:
        return time.monotonic() + self._patience

    # --- transactions ------------------------------------------------------------------------------------------------

    def _start_transaction_under_autocommit(self) -> None:
        until, turn = self._until, self._turns
        if not turn.take(self._patience):
            with self.wrap_database_errors:
                self.connection.execute("BEGIN IMMEDIATE")  # says what is wrong, if it still is
            return
        self._turn = turn
        try:
            _repeat(super()._start_transaction_under_autocommit, until)  # type: ignore[misc]
        except BaseException:
            self._give_turn()
            raise

    def _commit(self) -> None:
        try:
            super()._commit()  # type: ignore[misc]
        finally:
            self._end_turn()

    def _rollback(self) -> None:
        try:
            super()._rollback()  # type: ignore[misc]
        finally:
            self._end_turn()

    def _close(self) -> None:
        try:
            super()._close()  # type: ignore[misc]
        finally:
            self._give_turn()

    def _end_turn(self) -> None:
        if self.connection is not None and not self.connection.in_transaction:
            self._give_turn()

    def _give_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.give()


class Cursor(base.SQLiteCursorWrapper):
    database: DatabaseWrapper

    def execute(self, query: str, params: Any = None) -> Any:
        if self.connection.in_transaction:
            return super().execute(query, params)
        return self.database.wait_to(lambda: super(Cursor, self).execute(query, params))

    def executemany(self, query: str, param_list: Any) -> Any:
        """Outside a transaction in one of its own."""
        if self.connection.in_transaction:
            return super().executemany(query, param_list)
        self.execute("BEGIN IMMEDIATE")
        try:
            super().executemany(query, param_list)
            self.connection.commit()
        except BaseException:
            self.connection.rollback()
            raise
        return self


def _repeat(write: Callable[[], Result], until: float) -> Result:
    while True:
        try:
            return write()
        except (sqlite3.OperationalError, OperationalError) as error:
            if not _tells_of_others(error) or time.monotonic() > until:
                raise
        time.sleep(LOOK_SECONDS)


def _tells_of_others(error: Exception) -> bool:
    """Whether somebody else writes now, which ends."""
    cause = error if isinstance(error, sqlite3.Error) else error.__cause__
    return getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
