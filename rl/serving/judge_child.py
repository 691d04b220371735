"""The process that rates the answers of one agent, by what its base model makes of them, until it is ended by SIGTERM.

Run it as ``python -m rl.serving.judge_child FOLDER NUMBER``: DATA_DIR's folder of judges, and the agent. One JSON object
comes on standard input: ``name`` (of the base model, as the agent has it), ``base_model`` (its folder), ``max_length``
(tokens of prompt and answer). Its log is standard error.

It listens on the Unix socket FOLDER/NUMBER.sock. One connection is one request: the client writes ``{"head": path, "prompt":
messages, "answers": texts}`` and closes its half; it gets ``{"ratings": numbers}``, the larger the better, or ``{"error":
text}``. Requests wait for each other in the socket's queue."""

from __future__ import annotations

import json
import os
import select
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rl.judge.head import Head

WAITING = 16
"""Connections that may wait for their turn."""
Answer = dict[str, Any]


class LoadedJudge:
    """The base model, and the head that was asked for last."""

    def __init__(self, name: str, folder: str, max_length: int) -> None:
        from rl.base.records import silent
        from rl.judge.features import Reader

        self._name, self._reader = name, Reader(folder, max_length=max_length, report=silent)
        self._heads: dict[str, Head] = {}

    def rate(self, path: str, prompt: list[Any], answers: list[str]) -> list[float]:
        """Raises BadFile, and UsageError for a head that has learned with another base model."""
        from rl.base.records import silent

        head = self._head(path)
        if not answers:
            return []
        ratings = head.ratings(self._reader.features([(prompt, answer) for answer in answers], silent))
        return [float(rating) for rating in ratings]

    def _head(self, path: str) -> Head:
        from rl.base.errors import UsageError
        from rl.judge import head

        if path not in self._heads:
            self._heads = {path: head.load(Path(path))}
        if (learned := self._heads[path].base_model) != self._name:
            raise UsageError(f"it has learned with the base model {learned or 'not known'}: run auto_label again")
        return self._heads[path]


def main() -> None:
    folder, number = sys.argv[1:]
    request = json.load(sys.stdin)
    judge = LoadedJudge(request["name"], request["base_model"], request["max_length"])
    os.chdir(folder)  # the name of a socket has room for about a hundred bytes
    name = f"{number}.sock"
    with suppress(FileNotFoundError):
        Path(name).unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        Path(name).chmod(0o600)
        listener.listen(WAITING)
        while True:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                _serve(connection, judge)


def _serve(connection: socket.socket, judge: LoadedJudge) -> None:
    connection.settimeout(5.0)
    body = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    poll = select.poll()
    poll.register(connection, 0)
    # who stopped waiting while others were served has closed both halves
    is_gone = any(event & select.POLLHUP for _, event in poll.poll(0))
    if body and not is_gone:
        connection.sendall(json.dumps(_answer(judge, body)).encode())


def _answer(judge: LoadedJudge, body: bytes) -> Answer:
    """Whatever is wrong with one request, the next may be right."""
    try:
        request = json.loads(body)
        return {"ratings": judge.rate(request["head"], request["prompt"], request["answers"])}
    except Exception as error:  # noqa: BLE001  told to whoever asked
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
        return {"error": str(error)}


if __name__ == "__main__":
    main()
