"""A judge that prefers what is longest, after as long as it is told to take."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rl.serving.judge_process import address_of


@dataclass
class JudgeDouble:
    requests: list[dict[str, Any]] = field(default_factory=list)
    answers: threading.Event = field(default_factory=threading.Event)
    """Until this is set it keeps everybody waiting."""
    error: str = ""

    def serve(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    with connection.makefile("rb") as request:
                        self.requests.append(json.load(request))
                    self.answers.wait()
                    connection.sendall(json.dumps(self.say()).encode())

    def say(self) -> dict[str, Any]:
        return {"error": self.error} if self.error else {"ratings": [len(t) / 10 for t in self.requests[-1]["answers"]]}


@contextmanager
def judge_double(path: Path) -> Iterator[JudgeDouble]:
    double = JudgeDouble()
    double.answers.set()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener, address_of(path) as address:
        listener.bind(address)
        listener.listen()
        threading.Thread(target=double.serve, args=(listener,), daemon=True).start()
        yield double
        double.answers.set()
        listener.shutdown(socket.SHUT_RDWR)
    path.unlink()
