"""The body of a request, unpacked where the client sent it packed."""

import zlib
from collections.abc import Callable
from typing import Any, Final

from django.conf import settings
from starlette.requests import Request

from rl.serving.gateway.refusals import Refusal

HOLD: Final = "ratchet.hold"
"""In the ASGI scope: a function that counts so many bytes more among those that the request holds; it raises Refusal where
there is no room for them."""
_GZIP: Final = ("gzip", "x-gzip")
_PLAIN: Final = ("", "identity")
_ACCEPTED: Final = "gzip, identity"
_GZIP_BITS: Final = 31
"""What zlib calls the header and checksum of gzip."""


async def read_packed(request: Request) -> bytes:
    """Raises Refusal for an unknown encoding, for what is not packed as it says, and for more than MAX_REQUEST_BYTES."""
    encoding = ", ".join(request.headers.getlist("content-encoding")).strip().lower()
    if encoding not in (*_PLAIN, *_GZIP):
        message = f"Content-Encoding {encoding[:100]!r} is not known here; known are gzip and identity"
        raise Refusal(415, message, code="unsupported_encoding", headers={"Accept-Encoding": _ACCEPTED})
    sent = await request.body()
    return sent if encoding in _PLAIN else _unpack(sent, request.scope.get(HOLD, _hold_nothing))


def _unpack(sent: bytes, hold: Callable[[int], Any]) -> bytes:
    """Unpacks one byte more than the limit at most, whatever is sent. Raises Refusal."""
    most, inflater = settings.DATA_UPLOAD_MAX_MEMORY_SIZE, zlib.decompressobj(_GZIP_BITS)
    try:
        body = inflater.decompress(sent, most + 1)
    except zlib.error as error:
        raise _as_refusal(f"is not the gzip that Content-Encoding says: {error}") from None
    if len(body) > most:
        raise Refusal(413, f"the request body has more than {most} bytes, unpacked", code="request_too_large")
    if not inflater.eof:
        raise _as_refusal("is cut off: its gzip has no end")
    if inflater.unused_data:
        raise _as_refusal("goes on behind the end of its gzip")
    hold(len(body))
    return body


def _as_refusal(what: str) -> Refusal:
    return Refusal(400, f"the body {what}", code="invalid_encoding")


def _hold_nothing(count: int) -> None:
    """Is taken where nobody counts."""
