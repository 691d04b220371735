"""Brings answers into the database, behind the requests: files first, rows as soon as the database takes them."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final
from uuid import UUID

from django.db import close_old_connections, connections

from rl.serving.gateway import pending
from rl.serving.gateway.answer_rows import Unanswered, store
from rl.serving.gateway.exchange import Exchange
from rl.serving.gateway.pending import OpenStreams

PATIENCE_SECONDS: Final = 1.0
"""A disk that takes longer holds no answer up; the file follows."""
GATHER_SECONDS: Final = 0.5
"""Answers that end within it share a transaction."""
RETRY_SECONDS: Final = 1.0
STOP_SECONDS: Final = 3.0
"""What is not stored by then waits in its file for the next start."""
log = logging.getLogger(__name__)


class Recorder:
    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._open: set[asyncio.Task[Any]] = set()

    def watch(self) -> None:
        """The task that calls is streaming, and records its exchange at its end."""
        if task := asyncio.current_task():
            self._open.add(task)
            task.add_done_callback(self._open.discard)

    async def settle(self) -> None:
        """Waits until all streams have ended; at a stop they were told to."""
        if self._open:
            await asyncio.wait(self._open, timeout=PATIENCE_SECONDS)

    async def begin(self, exchange: Exchange, piece: bytes) -> OSError | None:
        """Before a stream's first byte goes out it is in its file; otherwise, the error that prevented it."""
        return await _patiently(self._writer.begin(exchange.id, exchange.document(), piece))

    def add(self, exchange: Exchange, pieces: bytes) -> None:
        self._writer.add(exchange.id, pieces)

    def record(self, exchange: Exchange) -> Future[OSError | None] | None:
        """None where there is nothing to wait for: it is recorded already, or nothing was said. An exchange without a word
        is only counted as a failure of its arm, if its version is to blame."""
        if exchange.is_recorded:
            return None
        exchange.is_recorded = True
        if exchange.answer.says_something:
            return self._writer.keep(exchange.id, exchange.document())
        self._writer.drop(exchange.id)
        route = exchange.route
        if exchange.failed and route.experiment_id is not None and route.arm_id is not None:
            self._writer.count(Unanswered(route.experiment_id, route.arm_id, exchange.request.unit))
        return None

    async def record_and_wait(self, exchange: Exchange) -> OSError | None:
        """Nobody is given the end of an answer that is not in its file; returns the error that prevented it."""
        future = self.record(exchange)
        return await _patiently(future) if future else None


async def _patiently(future: Future[OSError | None]) -> OSError | None:
    waiting = asyncio.wrap_future(future)
    await asyncio.wait({waiting}, timeout=PATIENCE_SECONDS)
    return waiting.result() if waiting.done() else None


class Writer:
    def __init__(self) -> None:
        self._files = ThreadPoolExecutor(1, thread_name_prefix="gateway-files")
        self._queue: queue.SimpleQueue[UUID | Unanswered | None] = queue.SimpleQueue()
        self._rows = threading.Thread(target=self._run, name="gateway-rows", daemon=True)
        self._waiting: list[UUID] = []
        self._unanswered: list[Unanswered] = []
        self._stopping = threading.Event()
        self._was_refused = False
        self._open_streams = OpenStreams()

    def start(self) -> None:
        """Begins with what dead processes left behind."""
        self._rows.start()

    def stop(self) -> None:
        self._files.shutdown(wait=True)
        self._stopping.set()
        self._queue.put(None)
        self._rows.join(STOP_SECONDS)

    def begin(self, trace_id: UUID, document: Mapping[str, Any], piece: bytes) -> Future[OSError | None]:
        """Done when the beginning of a stream is in its file, or with the error that prevented it."""
        return self._files.submit(_try_to_write, self._open_streams.begin, trace_id, document, piece)

    def add(self, trace_id: UUID, pieces: bytes) -> None:
        """What the stream went on to say."""
        self._files.submit(_try_to_write, self._open_streams.add, trace_id, pieces)

    def drop(self, trace_id: UUID) -> None:
        """A stream that ended without a word."""
        self._files.submit(self._open_streams.end, trace_id)

    def keep(self, trace_id: UUID, document: Mapping[str, Any]) -> Future[OSError | None]:
        """Done when the answer is in its file, or with the error that prevented it: then what was begun is left."""
        return self._files.submit(self._keep, trace_id, document)

    def count(self, unanswered: Unanswered) -> None:
        self._queue.put(unanswered)

    def _keep(self, trace_id: UUID, document: Mapping[str, Any]) -> OSError | None:
        error = _try_to_write(pending.write, trace_id, document)
        self._open_streams.end(trace_id, keep=error is not None)
        if error is None:
            self._queue.put(trace_id)
        return error

    # --- the thread of the rows --------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._store(pending.deliver_all)
        while not (self._stopping.is_set() and self._queue.empty()):
            if not self._waiting and not self._unanswered:
                self._take(self._queue.get())
            time.sleep(GATHER_SECONDS)
            while not self._queue.empty():
                self._take(self._queue.get())
            if not self._store(self._deliver):
                self._stopping.wait(RETRY_SECONDS)
        connections.close_all()

    def _take(self, item: UUID | Unanswered | None) -> None:
        if isinstance(item, Unanswered):
            self._unanswered.append(item)
        elif item is not None:
            self._waiting.append(item)

    def _deliver(self) -> None:
        if self._unanswered:
            store({}, self._unanswered)
            self._unanswered.clear()
        pending.deliver_these(self._waiting)
        self._waiting.clear()

    def _store(self, work: Callable[[], object]) -> bool:
        """Whatever goes wrong, the files are there and the next round tries again."""
        close_old_connections()
        try:
            work()
        except Exception as error:  # noqa: BLE001  a thread that must go on
            if not self._was_refused:
                log.error("answers cannot be stored now, they wait in files: %s: %s", type(error).__name__, error)
            self._was_refused = True
        else:
            self._was_refused = False
        return not self._was_refused


def _try_to_write(work: Callable[..., object], trace_id: UUID, *arguments: Any) -> OSError | None:
    try:
        work(trace_id, *arguments)
    except OSError as error:
        log.error("the file of the answer %s cannot be written: %s", trace_id, error)
        return error
    return None
