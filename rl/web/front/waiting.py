"""Answers that come when a run has ended. Whoever waits holds a connection and nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from django.db import DatabaseError

from rl.models import TrainingRun
from rl.serving.gateway.table import own_connection

LOOK_SECONDS: Final = 1.0
LONGEST_WAIT: Final = 600.0
"""Seconds that ``?wait=true`` holds an answer."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Later:
    """What an answer becomes when ``run`` has ended; its headers stay."""

    run: int
    render: Callable[[], tuple[int, bytes]]
    """Status and body as things are then. Reads the database."""


class EndsOfRuns:
    """However many wait: one query a second, in one thread. It stops when nobody waits."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="runs")
        self._awaited: defaultdict[int, set[asyncio.Future[None]]] = defaultdict(set)
        self._looking: asyncio.Task[None] | None = None

    async def wait(self, run: int) -> bool:
        """Waits for the run; returns whether it has ended, False after LONGEST_WAIT."""
        end = asyncio.get_running_loop().create_future()
        self._awaited[run].add(end)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            await asyncio.wait({end}, timeout=LONGEST_WAIT)
            return end.done()
        finally:
            self._awaited[run].discard(end)
            if not self._awaited[run]:
                del self._awaited[run]

    def stop(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _look(self) -> None:
        while self._awaited:
            await asyncio.sleep(LOOK_SECONDS)
            awaited = list(self._awaited)
            active = await asyncio.get_running_loop().run_in_executor(self._thread, _active, awaited)
            for run in set(awaited) - active:
                for end in self._awaited.get(run, ()):
                    if not end.done():
                        end.set_result(None)


def _active(runs: Collection[int]) -> set[int]:
    """Those of the runs that go on; all of them where the database does not answer."""
    try:
        with own_connection():
            going_on = TrainingRun.objects.filter(pk__in=runs, state__in=TrainingRun.ACTIVE)
            return set(going_on.values_list("pk", flat=True))
    except DatabaseError as error:
        log.warning("it cannot be looked whether runs have ended: %s", error)
        return set(runs)
