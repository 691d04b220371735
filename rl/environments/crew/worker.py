"""A process that runs episodes: JSON lines on standard input, JSON lines on standard output.

First ``{"path": sys.path, "settings": {...}, "parent": pid}``; then ``["begin", [[index, task], ...]]`` and
``["act", [[index, action], ...]]``, which are answered by one line ``[index, {...}]`` for each episode, in their order:
an Opening, a Move, or ``{"refused": why}``.

Episodes run one after the other in the main thread, as they would without workers. It ends with its standard input or its
parent, and takes along what its tools have started.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any, NoReturn

from rl.base.errors import UsageError
from rl.environments.crew.stage import Stage
from rl.environments.settings import EnvironmentSettings

GRACE_SECONDS = 2.0
"""Time that it has to end when nobody waits for it any more."""
_PARENT_SECONDS = 1.0


def main() -> None:
    """What other modules do at the exit of a process, they do before ``_end``."""
    atexit.register(_end)
    with suppress(BrokenPipeError):
        _serve(*_own_channels())


def _serve(incoming: IO[bytes], outgoing: IO[bytes]) -> None:
    """Raises BrokenPipeError when nobody reads the answers."""
    beginning = json.loads(incoming.readline())
    sys.path[:] = beginning["path"]
    requests: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_listen, args=(incoming, requests), daemon=True).start()
    Thread(target=_watch, args=(beginning["parent"],), daemon=True).start()
    stage = Stage(EnvironmentSettings(**beginning["settings"]))
    for verb, episodes in iter(requests.get, None):
        for line in _answers(stage.begin if verb == "begin" else stage.act, episodes):
            outgoing.write(line)
            outgoing.flush()
    stage.close()


def _own_channels() -> tuple[IO[bytes], IO[bytes]]:
    """Tools that read standard input find it empty, and what they print goes to standard error."""
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return incoming, outgoing


def _listen(incoming: IO[bytes], requests: SimpleQueue[Any]) -> None:
    for line in incoming:
        requests.put(json.loads(line))
    requests.put(None)
    time.sleep(GRACE_SECONDS)
    _end()


def _watch(parent: int) -> None:
    """Standard input may stay open after the parent's death, in another process that it has forked."""
    while os.getppid() == parent:
        time.sleep(_PARENT_SECONDS)
    _end()


def _answers(run: Callable[[int, Any], str], episodes: list[tuple[int, Any]]) -> Iterator[bytes]:
    for index, document in episodes:
        try:
            answer = run(index, document)
        except UsageError as error:
            answer = json.dumps({"refused": str(error)})
        yield f"[{index}, {answer}]\n".encode()


def _end() -> NoReturn:
    """A tool that hangs, in a thread or in a process of its own, would keep a worker that ends in another way."""
    sys.stdout.flush()
    sys.stderr.flush()
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(0)
