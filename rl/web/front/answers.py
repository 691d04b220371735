"""Answers that are whole before their first byte goes out, so that a slow reader keeps nobody busy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final

from rl.web.front.questions import Question
from rl.web.front.waiting import Later

PIECE: Final = 65_536
"""Bytes that are handed to the connection at a time; the next ones follow when these are on their way."""
IN_MEMORY: Final = 1_048_576
"""Bytes of a streaming response; what is longer waits in a file."""

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Headers
    """Lower-case names."""
    body: bytes | IO[bytes]
    later: Later | None = None
    """What is answered later, where the client wants to wait."""
    question: Question | None = None
    """What the gateway answers in the place of this."""

    def with_body(self, status: int, body: bytes) -> Answer:
        length = (b"content-length", str(len(body)).encode())
        return Answer(status, [length if name == length[0] else (name, value) for name, value in self.headers], body)

    @classmethod
    def of(cls, status: int, body: bytes, media_type: str, more: Mapping[str, str] | None = None) -> Answer:
        headers = {
            "Content-Type": media_type,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            **(more or {}),
        }
        return cls(status, [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()], body)


def spool(pieces: Any) -> IO[bytes]:
    """What an iterable of bytes gives, from its start; whoever reads it closes it."""
    held: Any = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115
    try:
        for piece in pieces:
            held.write(piece)
        held.seek(0)
    except BaseException:
        held.close()
        raise
    return held


async def send_answer(send: Any, answer: Answer) -> None:
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    body = answer.body
    if not isinstance(body, bytes):
        await _send_file(send, body)
        return
    start = 0
    while len(body) - start > PIECE:
        await send({"type": "http.response.body", "body": body[start : start + PIECE], "more_body": True})
        start += PIECE
    await send({"type": "http.response.body", "body": body[start:] if start else body})


async def _send_file(send: Any, body: IO[bytes]) -> None:
    with body:
        while piece := body.read(PIECE):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
