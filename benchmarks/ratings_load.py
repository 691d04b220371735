"""Clients of benchmarks/ratings.py: connections that send one rating after the other, and threads that commit rows."""

import asyncio
import itertools
import json
import sqlite3
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Taken:
    """What was answered, and how."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    """Seconds, of what was answered with 201."""
    refused: list[str] = field(default_factory=list)
    """Status lines and bodies of everything else."""
    acknowledged: list[tuple[str, str]] = field(default_factory=list)
    """Trace and rater of each rating that was answered with 201."""

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds

    @property
    def p99(self) -> float:
        """Milliseconds."""
        return statistics.quantiles(self.latencies, n=100)[98] * 1000 if len(self.latencies) > 1 else float("nan")


# --- over HTTP ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    port: int
    key: str
    traces: tuple[str, ...]

    def requests(self, name: str) -> Iterator[tuple[str, str, bytes]]:
        """Trace, rater and the request, without end; no rater rates a trace twice."""
        for number in itertools.count():
            trace, rater = self.traces[number % len(self.traces)], f"{name}-{number}"
            body = json.dumps(
                {"trace": trace, "rater": rater, "scale": "stars", "value": 4, "tags": ["clear"]}
            ).encode()
            head = (
                f"POST /api/v1/feedback/ HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self.key}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            yield trace, rater, head.encode() + body


def send(target: Target, name: str, connections: int, seconds: float) -> Taken:
    """Each connection waits for its answer, then sends the next. Ends sooner where the server goes away."""
    return asyncio.run(_send(target, name, connections, seconds))


async def _send(target: Target, name: str, connections: int, seconds: float) -> Taken:
    taken, started = Taken(), time.perf_counter()
    ends = started + seconds
    await asyncio.gather(*[_connection(target, f"{name}-{number}", ends, taken) for number in range(connections)])
    taken.seconds = time.perf_counter() - started
    return taken


async def _connection(target: Target, name: str, ends: float, taken: Taken) -> None:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
        for trace, rater, request in target.requests(name):
            started = time.perf_counter()
            writer.write(request)
            status, body = await _answer(reader)
            ended = time.perf_counter()
            if status == 201:
                taken.latencies.append(ended - started)
                taken.acknowledged.append((trace, rater))
            else:
                taken.refused.append(f"{status} {body[:300]!r}")
            if ended > ends:
                break
        writer.close()
    except (OSError, asyncio.IncompleteReadError):
        return


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    return int(head.split(b" ", 2)[1]), await reader.readexactly(length)


# --- in the database alone ---------------------------------------------------------------------------------------------


def commit(database: str, threads: int, seconds: float) -> Taken:
    """A row and a commit at a time, in each thread with a connection of its own; settings as those of the site."""
    taken, barrier = Taken(), threading.Barrier(threads + 1)
    workers = [
        threading.Thread(target=_commit, args=(database, barrier, seconds, taken), daemon=True) for _ in range(threads)
    ]
    for worker in workers:
        worker.start()
    barrier.wait()
    started = time.perf_counter()
    for worker in workers:
        worker.join()
    taken.seconds = time.perf_counter() - started
    return taken


def _commit(database: str, barrier: threading.Barrier, seconds: float, taken: Taken) -> None:
    connection, insert = _connect(database)
    latencies = []
    barrier.wait()
    ends = time.perf_counter() + seconds
    while (started := time.perf_counter()) < ends:
        connection.execute(insert, ("c4e44e3a-95e4-4460-a395-ca59f467da77", "anna", "stars", 4))
        latencies.append(time.perf_counter() - started)
    connection.close()
    taken.latencies += latencies


def _connect(database: str) -> tuple[Any, str]:
    insert = "INSERT INTO bare_rating (trace, rater, scale, value) VALUES (?, ?, ?, ?)"
    if database.startswith("postgres"):
        import psycopg

        return psycopg.connect(database, autocommit=True), insert.replace("?", "%s")
    connection = sqlite3.connect(Path(database), isolation_level=None, timeout=20)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection, insert


if __name__ == "__main__":
    way, *arguments = sys.argv[1:]
    if way == "send":
        port, key, traces, name, connections, seconds = arguments
        target = Target(int(port), key, tuple(Path(traces).read_text().split()))
        result = send(target, name, int(connections), float(seconds))
    else:
        database, threads, seconds = arguments
        result = commit(database, int(threads), float(seconds))
    print(json.dumps(vars(result)))
