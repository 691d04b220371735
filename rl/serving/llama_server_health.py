"""Whether a llama.cpp process goes on."""

from __future__ import annotations

import http.client
from typing import Final
from urllib.parse import urlsplit

from rl.serving.upstreams import Upstream

STUCK_SECONDS: Final = 120.0
"""It answers between two steps of its work: within a second, or a minute where a slow processor reads a long prompt."""
PATH: Final = "/metrics"
"""Answered where the tokens are made; ``/health`` would be answered by a process that makes none."""


def is_stuck(upstream: Upstream, seconds: float = STUCK_SECONDS) -> bool:
    """Whether it takes connections and says nothing for so long. One that takes none has ended, or reads its file."""
    connection = http.client.HTTPConnection(urlsplit(upstream.base_url).netloc, timeout=seconds)
    try:
        connection.request("GET", PATH, headers=dict(upstream.headers))
        connection.getresponse()
    except TimeoutError:
        return True
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return False
