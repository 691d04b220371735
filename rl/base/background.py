"""Tasks of an event loop that nobody waits for until its end."""

import asyncio
from collections.abc import Iterable
from typing import Any


async def end_all(tasks: Iterable[asyncio.Future[Any] | None]) -> None:
    """Cancels those that go on, and waits until they have ended. What one broke by is told by asyncio's own log."""
    running = {task for task in tasks if task and not task.done()}
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)
