"""Workers end with the process that started them, however that one ended."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import time
from multiprocessing.connection import wait
from threading import Thread
from typing import Final

STOP_SECONDS: Final = 10.0
"""Given to the answers of a worker whose master is gone, beyond what uvicorn gives them."""
log = logging.getLogger(__name__)


def end_with_master() -> None:
    """Where this process is not a worker it does nothing."""
    master = multiprocessing.parent_process()
    if master is not None:
        Thread(target=_end_after, args=(master.sentinel,), name="master", daemon=True).start()


def _end_after(sentinel: int) -> None:
    wait([sentinel])
    log.error("the process that started this worker is gone: the worker ends")
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STOP_SECONDS)
    os._exit(1)
