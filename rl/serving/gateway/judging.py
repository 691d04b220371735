"""Asks the judge of an agent, a process of its own (``judge_child.py``), which of several answers people prefer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Final

from rl.base.records import Message
from rl.serving.gateway.routing import KnownJudge
from rl.serving.judge_process import address_of

JUDGE_SECONDS: Final = 5.0
"""How long an answer waits for its judge, its turn included."""


class Unjudged(Exception):
    """The judge cannot say; the text is the reason."""


async def rate(judge: KnownJudge, prompt: Sequence[Message], answers: Sequence[str]) -> list[float]:
    """A number for each answer, the larger the better. Raises Unjudged."""
    request = {"head": judge.head, "prompt": list(prompt), "answers": list(answers)}
    try:
        async with asyncio.timeout(JUDGE_SECONDS):
            document = json.loads(await _ask(judge, json.dumps(request).encode()))
    except TimeoutError:
        raise Unjudged(f"the judge did not answer within {JUDGE_SECONDS:g} seconds") from None
    except (OSError, ValueError) as error:
        raise Unjudged(f"the judge does not run: {type(error).__name__}") from None
    if problem := document.get("error"):
        raise Unjudged(f"the judge broke: {problem}"[:500])
    ratings: list[float] = document["ratings"]
    return ratings


async def _ask(judge: KnownJudge, request: bytes) -> Any:
    with address_of(judge.socket) as address:
        reader, writer = await asyncio.open_unix_connection(address)
    try:
        writer.write(request)
        writer.write_eof()
        return await reader.read()
    finally:
        writer.close()
