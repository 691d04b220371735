"""What the gateway adds to calling a model server directly: latency one by one, and many streams at once.

.venv/bin/python benchmarks/gateway.py [--requests 300] [--streams 60] [--locked-seconds 5]

Starts a fake model server and ``manage.py serve`` with one worker on a fresh SQLite database, each in a process of its own.
Calls them side by side with the same client: whole answers that the server has at once, then streams of 30 tokens, 20 ms
apart, then whole answers while another connection holds the database's write lock. Fails when the median overhead is 5 ms
or more, when a request fails, or when an answer is not stored in the end.
"""

import argparse
import asyncio
import json
import os
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parent.parent
TOKENS, SECONDS_APART = 30, 0.02
MOST_OVERHEAD_MS = 5.0
DATA = """
from django.core.management import call_command
from rl.models import Agent, ApiKey, Deployment, ModelVersion
call_command("migrate", verbosity=0)
agent = Agent.objects.create(name="bench")
version = ModelVersion.objects.create(agent=agent, name="v1", base_model="tiny", feedback_count=1)
Deployment.objects.create(
    agent=agent, version=version, target="openai", url="{url}", model_name="fake", alias="champion"
)
print(ApiKey.create(name="bench", kind="secret")[1])
"""


@dataclass(frozen=True)
class Target:
    name: str
    url: str
    headers: dict[str, str]
    model: str

    def body(self, **more: Any) -> dict[str, Any]:
        messages = [{"role": "user", "content": "Where is my parcel? " * 20}]
        return {"model": self.model, "messages": messages, "max_tokens": 64, **more}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--streams", type=int, default=60)
    parser.add_argument("--locked-seconds", type=float, default=5)
    parser.add_argument("--upstream", type=int, metavar="PORT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.upstream:
        return serve_fake(options.upstream)
    with tempfile.TemporaryDirectory(prefix="ratchet-benchmark-") as folder, servers(Path(folder)) as (direct, gateway):
        print(f"| | {direct.name} | {gateway.name} |\n|---|---|---|")
        passed = sequential(direct, gateway, options.requests)
        passed &= parallel(direct, gateway, options.streams)
        asked = ask_while_locked(gateway, Path(folder, "db.sqlite3"), options.locked_seconds)
        # Both targets were warmed up with 20 requests; only the gateway's are stored.
        passed &= all_stored(Path(folder, "db.sqlite3"), options.requests + 20 + options.streams + asked)
    print("passed" if passed else f"failed: {MOST_OVERHEAD_MS} ms or more at the median, or something was lost")
    return 0 if passed else 1


# --- measuring ---------------------------------------------------------------------------------------------------------


def sequential(direct: Target, gateway: Target, count: int) -> bool:
    """In turns, so that what else the machine does meets both."""
    durations: dict[str, list[float]] = {direct.name: [], gateway.name: []}
    with httpx.Client() as client:
        for number in range(count + 20):
            for target in (direct, gateway):
                started = time.perf_counter()
                answer = client.post(f"{target.url}/chat/completions", json=target.body(), headers=target.headers)
                answer.raise_for_status()
                if number >= 20:
                    durations[target.name].append((time.perf_counter() - started) * 1000)
    (alone, middle), (alone_late, late) = zip(*(points_of(times) for times in durations.values()), strict=True)
    print(f"| {count} whole answers, one by one: ms at the median | {alone:.2f} | {middle:.2f} |")
    print(f"| … 95 % under | {alone_late:.2f} | {late:.2f} |")
    return bool(middle - alone < MOST_OVERHEAD_MS)


def points_of(durations: Sequence[float]) -> tuple[float, float]:
    """The median, and what 95 % are under."""
    return statistics.median(durations), statistics.quantiles(durations, n=20)[18]


def parallel(direct: Target, gateway: Target, count: int) -> bool:
    (wall, firsts), (wall_there, firsts_there) = (asyncio.run(_together(target, count)) for target in (direct, gateway))
    apart = f"{TOKENS} tokens, {SECONDS_APART * 1000:.0f} ms apart"
    print(f"| {count} streams at once, {apart}: seconds in all | {wall:.2f} | {wall_there:.2f} |")
    of_first = zip(points_of(firsts), points_of(firsts_there), strict=True)
    for name, (alone, there) in zip(("ms to the first at the median", "95 % under"), of_first, strict=True):
        print(f"| … {name} | {alone * 1000:.0f} | {there * 1000:.0f} |")
    return True


async def _together(target: Target, count: int) -> tuple[float, list[float]]:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=60, limits=limits) as client:
        started = time.perf_counter()
        firsts = await asyncio.gather(*[_stream(client, target) for _ in range(count)])
        return time.perf_counter() - started, firsts


async def _stream(client: httpx.AsyncClient, target: Target) -> float:
    """Seconds to the first token."""
    started, first, tokens, done = time.perf_counter(), 0.0, 0, False
    body = target.body(stream=True)
    async with client.stream("POST", f"{target.url}/chat/completions", json=body, headers=target.headers) as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            done |= line == "data: [DONE]"
            if '"content":' in line:
                tokens += 1
                first = first or time.perf_counter() - started
    assert (tokens, done) == (TOKENS, True), f"{tokens} tokens"
    return first


def ask_while_locked(gateway: Target, database: Path, seconds: float) -> int:
    """How many requests were made."""
    lock = sqlite3.connect(database, isolation_level=None, timeout=30)
    lock.execute("BEGIN IMMEDIATE")
    durations = []
    until = time.perf_counter() + seconds
    with httpx.Client() as client:
        while time.perf_counter() < until:
            started = time.perf_counter()
            answer = client.post(f"{gateway.url}/chat/completions", json=gateway.body(), headers=gateway.headers)
            answer.raise_for_status()
            durations.append((time.perf_counter() - started) * 1000)
            time.sleep(0.005)
    lock.execute("ROLLBACK")
    lock.close()
    middle, late = points_of(durations)
    locked = f"while the database is locked for {seconds:.0f} s"
    print(f"| {len(durations)} answers {locked}: ms at the median | | {middle:.2f} |")
    print(f"| … 95 % under, longest | | {late:.2f}, {max(durations):.0f} |")
    return len(durations)


def all_stored(database: Path, wanted: int) -> bool:
    started = time.perf_counter()
    stored = 0
    while stored < wanted and time.perf_counter() - started < 60:
        time.sleep(0.1)
        connection = sqlite3.connect(database, timeout=20)
        (stored,) = connection.execute("SELECT COUNT(*) FROM rl_trace").fetchone()
        connection.close()
    print(f"{stored} of {wanted} answers stored {time.perf_counter() - started:.1f} s after the last")
    return stored == wanted


# --- servers -----------------------------------------------------------------------------------------------------------


@contextmanager
def servers(folder: Path) -> Iterator[tuple[Target, Target]]:
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    environment = {
        **keep,
        "ENV_FILE": os.devnull,
        "SECRET_KEY": "only-for-this-benchmark-" + "x" * 40,
        "DEBUG": "0",
        "HTTPS": "0",
        "ALLOWED_HOSTS": "127.0.0.1",
        "DATA_DIR": str(folder),
        "API_REQUESTS_PER_MINUTE": "1000000",
    }
    manage = [sys.executable, str(ROOT / "manage.py")]
    upstream, port = _free_port(), _free_port()
    direct = Target("the server", f"http://127.0.0.1:{upstream}/v1", {}, "fake")
    made = [*manage, "shell", "--no-imports", "-c", DATA.format(url=direct.url.removesuffix("/v1"))]
    key = subprocess.run(made, env=environment, check=True, capture_output=True, text=True).stdout.strip()
    gateway = Target("through the gateway", f"http://127.0.0.1:{port}/v1", {"Authorization": f"Bearer {key}"}, "bench")
    commands = [[sys.executable, __file__, "--upstream", str(upstream)], [*manage, "serve", "--port", str(port)]]
    processes = [
        subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for command in commands
    ]
    try:
        _wait(direct)
        _wait(gateway)
        yield direct, gateway
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait(target: Target) -> None:
    for _ in range(300):
        try:
            urllib.request.urlopen(urllib.request.Request(f"{target.url}/models", headers=target.headers), timeout=2)
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit(f"{target.name} did not start")


def serve_fake(port: int) -> int:
    import uvicorn

    uvicorn.run(fake, port=port, log_level="error")
    return 0


async def fake(scope: Any, receive: Any, send: Any) -> None:
    """A model server that thinks of nothing."""
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    streams = bool(body) and json.loads(body).get("stream", False)
    kind = b"text/event-stream" if streams else b"application/json"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
    if not streams:
        message = {"role": "assistant", "content": "On its way. " * 20}
        await send({"type": "http.response.body", "body": _completion("message", message, "stop")})
        return
    for _ in range(TOKENS):
        data = b"data: " + _completion("delta", {"content": "word "}) + b"\n\n"
        await send({"type": "http.response.body", "body": data, "more_body": True})
        await asyncio.sleep(SECONDS_APART)
    end = b"data: " + _completion("delta", {}, "stop") + b"\n\ndata: [DONE]\n\n"
    await send({"type": "http.response.body", "body": end})


def _completion(name: str, message: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, name: message, "finish_reason": finish}
    usage = {"prompt_tokens": 80, "completion_tokens": 60, "total_tokens": 140}
    return json.dumps(
        {
            "id": "x",
            "object": "chat",
            "created": 1,
            "model": "fake",
            "choices": [choice],
            **({"usage": usage} if name == "message" else {}),
        }
    ).encode()


if __name__ == "__main__":
    sys.exit(main())
