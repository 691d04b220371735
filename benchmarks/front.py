"""What a request costs before and after Django: the front beside a2wsgi, which it replaced.

    .venv/bin/python benchmarks/front.py [--seconds 5] [--rounds 3]

CPU of the server per request, in milliseconds, for a page, a small POST and a thread's bare round trip (an application of
one line instead of Django). a2wsgi is measured where it is installed: ``pip install a2wsgi``.
"""

import argparse
import asyncio
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
CONNECTIONS = 8
BODY = b'{"trace": "00000000-0000-0000-0000-000000000000", "rater": "r", "scale": "thumb", "value": 1}'
REQUESTS = {
    "the sign-in page": b"GET /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a small POST that the API refuses": b"POST /api/v1/feedback/ HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY),
    "one line instead of Django": b"GET /bare HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
}


# --- the server --------------------------------------------------------------------------------------------------------


def application(kind: str) -> Any:
    sys.path.insert(0, str(ROOT))
    from django.http import HttpResponse

    import backend.asgi

    def django(environ: dict[str, Any], start_response: Any) -> Any:
        if environ["PATH_INFO"] != "/bare":
            return backend.asgi._django(environ, start_response)
        response = HttpResponse("ok")
        start_response("200 OK", [*response.items(), ("Content-Length", "2")])
        return response

    if kind == "a2wsgi":
        from a2wsgi import WSGIMiddleware

        return WSGIMiddleware(django, workers=10)
    from rl.web.front.application import Front

    return Front(django)  # type: ignore[arg-type]


def serve(kind: str, port: int) -> None:
    import uvicorn

    http = "rl.web.front.connections:Connection" if kind == "front" else "httptools"
    uvicorn.run(application(kind), port=port, log_config=None, access_log=False, lifespan="off", http=http)


def start(kind: str, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "ENV_FILE": os.devnull,
        "SECRET_KEY": "only-for-this-benchmark-" + "x" * 40,
        "DEBUG": "0",
        "HTTPS": "0",
        "ALLOWED_HOSTS": "127.0.0.1",
        "DATA_DIR": str(folder),
        "LOG_LEVEL": "CRITICAL",
        "ANONYMOUS_REQUESTS_PER_MINUTE": "1000000",
        "DJANGO_SETTINGS_MODULE": "backend.settings",
    }
    process = subprocess.Popen([sys.executable, __file__, "--serve", kind, "--port", str(port)], env=environment)
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/bare", timeout=2)
            return process, port
        except OSError:
            time.sleep(0.1)


# --- the load ----------------------------------------------------------------------------------------------------------


async def _ask(port: int, request: bytes, end: float) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count = 0
    while time.monotonic() < end:
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if b"content-length: " in head:
            await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
        else:
            await reader.readuntil(b"0\r\n\r\n")
        count += 1
    writer.close()
    return count


async def _load(port: int, request: bytes, seconds: float) -> int:
    end = time.monotonic() + seconds
    return sum(await asyncio.gather(*(_ask(port, request, end) for _ in range(CONNECTIONS))))


def measure(process: subprocess.Popen[bytes], port: int, request: bytes, seconds: float) -> float:
    """Milliseconds of CPU per request."""
    server = psutil.Process(process.pid)
    before = server.cpu_times()
    count = asyncio.run(_load(port, request, seconds))
    after = server.cpu_times()
    return (after.user + after.system - before.user - before.system) * 1000 / count


def main(seconds: float, rounds: int) -> None:
    kinds = ["front", *(["a2wsgi"] if find_spec("a2wsgi") else [])]
    figures = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        servers = {kind: start(kind, Path(folder)) for kind in kinds}
        for _ in range(rounds):
            for name, request in REQUESTS.items():
                for kind, (process, port) in servers.items():
                    figures[name, kind].append(measure(process, port, request, seconds))
        for process, _ in servers.values():
            process.kill()
            process.wait()
    print(f"| request | {' | '.join(kinds)} |\n|---|{'---|' * len(kinds)}")
    for name in REQUESTS:
        print(f"| {name} | {' | '.join(f'{statistics.median(figures[name, kind]):.2f}' for kind in kinds)} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", choices=["front", "a2wsgi"])
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.port)
    else:
        main(options.seconds, options.rounds)
