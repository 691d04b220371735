from __future__ import annotations

import os
import signal
import socket

import psutil
import pytest

from tests.waiting import until
from tests.web.front.server import head, served

pytestmark = pytest.mark.process


def test_workers_end_with_a_master_that_was_killed_and_free_the_port(prepared):
    with served(*prepared, "--workers", "2") as server:
        children = psutil.Process(server.process.pid).children(recursive=True)
        assert len(children) >= 2
        server.connect(head("POST", "/login/", "Content-Length: 10")).close()
        os.kill(server.process.pid, signal.SIGKILL)
        _, alive = psutil.wait_procs(children, timeout=30)
        assert alive == []
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            until(lambda: _is_bound(probe, server.port))
        assert "the process that started this worker is gone" in server.log


def _is_bound(probe: socket.socket, port: int) -> bool:
    try:
        probe.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True
