"""Ports for servers that bind theirs themselves."""

import itertools
import os
import socket
import tempfile
from pathlib import Path
from typing import IO

from rl.base.locks import try_lock

FIRST = 20_000
"""Ray's workers take lower ones."""
_HELD: list[IO[str]] = []
"""Open as long as this process lives, and with them the locks."""
_NUMBERS = itertools.count(FIRST + os.getpid() % 8_000)


def reserve_port() -> int:
    """A port that nobody else gets while this process lives: the kernel hands out higher ones only, where nobody names one,
    and other tests ask here."""
    folder = Path(tempfile.gettempdir(), f"ratchet-test-ports-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    for port in _NUMBERS:
        file = (folder / str(port)).open("w")
        if try_lock(file.fileno()) and _is_free(port):
            _HELD.append(file)
            return port
        file.close()
    raise AssertionError("unreachable")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
