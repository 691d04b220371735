"""When a request may be sent: a limit per minute, and the waits between tries."""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict, deque
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_WAIT = 60.0
"""Seconds before another try; a server that asks for more is not asked again."""
_MINUTE = 60.0
_lock = threading.Lock()
_sent: defaultdict[str, deque[float]] = defaultdict(deque)
"""Of each host, when requests were or will be sent, oldest first; of all threads of the process."""


def take_turn(host: str, per_minute: int | None) -> None:
    """Returns when another request to ``host`` is within the limit; None: none."""
    if per_minute is None:
        return
    now = time.monotonic()
    with _lock:
        turns = _sent[host]
        while turns and turns[0] <= now - _MINUTE:
            turns.popleft()
        turn = max(now, turns[-per_minute] + _MINUTE) if len(turns) >= per_minute else now
        turns.append(turn)
    pause(turn - now)


def wait_before_retry(number: int, factor: float, retry_after: str) -> float:
    """Seconds; ``number`` counts the tries so far."""
    return max(min(factor * 2 ** (number - 1), LONGEST_WAIT), _seconds(retry_after))


def pause(seconds: float) -> None:
    time.sleep(seconds)


def _seconds(retry_after: str) -> float:
    """Of both forms of the header; 0 for what is neither."""
    if re.fullmatch(r"[0-9]{1,9}", retry_after):
        return float(retry_after)
    try:
        moment = parsedate_to_datetime(retry_after)
        return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError):
        return 0.0
