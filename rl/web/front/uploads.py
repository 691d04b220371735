"""Requests that bring a file. What comes goes on to the disk, beyond a little, and only for keys that may send it: nobody
else may fill a disk."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import IO, Any, Final

from django.conf import settings

from rl.models import ApiKey
from rl.web.api.auth import INGEST, bearer_of, find_key

IN_MEMORY: Final = 262_144
"""Bytes of a body that need no file."""
PART_BYTES: Final = 67_108_864
"""The most that a part of a file may have, as OpenAI has it."""
FORM_BYTES: Final = 65_536
"""What a form may have beside its file."""
_ADDRESSES: Final = re.compile("/v1/(?:(files)|uploads/[^/]+/parts)/?")


def largest_body(scope: Any) -> int:
    """Bytes of a request with a file; 0: its address takes none."""
    address = _ADDRESSES.fullmatch(scope["path"]) if scope["method"] == "POST" else None
    if address is None:
        return 0
    return FORM_BYTES + (settings.MAX_FILE_BYTES if address[1] else min(PART_BYTES, settings.MAX_FILE_BYTES))


def may_send(scope: Any) -> bool:
    """Whether the request's key lets it. Reads the database."""
    header = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
    key = find_key(bearer_of(header))
    return key is not None and key.kind == ApiKey.Kind.SECRET and INGEST in key.scopes


def keep_in(body: IO[bytes], take: Callable[[int], None]) -> Callable[[bytes], Awaitable[None]]:
    """Writes pieces to a spooled file, in another thread, and takes memory for those that are in none. It raises OSError and
    RequestRefused."""

    async def keep(piece: bytes) -> None:
        take(max(0, min(len(piece), IN_MEMORY - body.tell())))
        await asyncio.to_thread(body.write, piece)

    return keep
