"""Starting, finding and ending the process of a llama.cpp server, and what its log says of its end."""

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final
from urllib.parse import urlsplit

import psutil
from django.conf import settings

from rl.base.files import sha256_of
from rl.export.llama_cpp.process import cause_in
from rl.models import Deployment
from rl.serving.upstreams import Upstream, server_key

STUCK_SECONDS: Final = 120.0
"""It answers between two steps of its work: within a second, or a minute where a slow processor reads a long prompt."""
PATH: Final = "/metrics"
"""Answered where the tokens are made; ``/health`` would be answered by a process that makes none."""
END_SECONDS = 10.0
KNOWN_SECONDS: Final = 1.0
"""Time after which every gateway knows the new address of a server (``gateway.table.REFRESH_SECONDS`` and a reading)."""
_LOOK_SECONDS: Final = 0.2
_AT_WORK: Final = re.compile(r"^llamacpp:requests_(?:processing|deferred) (\S+)$", re.MULTILINE)
_PASSED_ON = re.compile(r"(PATH|HOME|LANG|LC_\w+|TMPDIR|LD_LIBRARY_PATH|(CUDA|NVIDIA|HIP|ROCR|OMP|GGML)_\w+)")
"""Variables that the server gets: a model file that takes llama.cpp over should find no secret of the site in them."""


class Busy(Exception):
    """Somebody else starts or ends servers, or judges, at this moment."""


def not_now() -> None:
    """For whoever would wait for a lock and must not."""
    raise Busy


def is_stuck(upstream: Upstream, seconds: float = STUCK_SECONDS) -> bool:
    """Whether it takes connections and says nothing for so long. One that takes none has ended, or reads its file."""
    connection = http.client.HTTPConnection(urlsplit(upstream.base_url).netloc, timeout=seconds)
    try:
        connection.request("GET", PATH, headers=dict(upstream.headers))
        connection.getresponse()
    except TimeoutError:
        return True
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return False


def let_finish(upstream: Upstream | None) -> None:
    """Waits until a server whose place another one has taken gives no answer any more, as long as an answer may take."""
    until = time.monotonic() + settings.GATEWAY_TIMEOUT
    time.sleep(KNOWN_SECONDS)
    while upstream and is_at_work(upstream) and time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)


def is_at_work(upstream: Upstream) -> bool:
    connection = http.client.HTTPConnection(urlsplit(upstream.base_url).netloc, timeout=END_SECONDS)
    try:
        connection.request("GET", PATH, headers=dict(upstream.headers))
        figures = connection.getresponse().read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return any(float(count) > 0 for count in _AT_WORK.findall(figures))


@dataclass(frozen=True, slots=True)
class Server:
    MODULE: ClassVar = "rl.serving.llama_server_child"
    process: subprocess.Popen[bytes]
    started: float
    """Seconds since 1970."""
    url: str
    log: Path
    log_start: int
    """Bytes of the log that are older."""
    adapters: tuple[int, ...] = ()
    """The deployments whose adapters it has, in the order of their numbers there."""

    def cause(self) -> str:
        return cause_in(read_tail(self.log, self.log_start))


def servers_folder() -> Path:
    return settings.DATA_DIR / "servers"


def spawn(deployment: Deployment, port: int = 0) -> Server:
    """Does not wait for it. Its key goes by standard input: process lists and environments can be read by others."""
    servers_folder().mkdir(parents=True, exist_ok=True)
    log = _log_of(deployment)
    port, adapters = _free_port(port), find_adapters(deployment)
    request = {
        "path": str(settings.DATA_DIR / deployment.path),
        "sha256": deployment.sha256,
        "name": deployment.model_name,
        "key": server_key(deployment),
        "port": port,
        "adapters": [str(settings.DATA_DIR / row.path) for row in adapters],
        **{name: deployment.settings[name] for name in ("slots", "context", "threads", "gpu_layers", "kv_cache_type")},
    }
    with log.open("ab") as output:
        log_start = output.tell()
        process, started = spawn_child(Server.MODULE, servers_folder(), deployment.pk, request, output, {})
    loaded = tuple(row.pk for row in adapters)
    return Server(process, started, f"http://127.0.0.1:{port}", log, log_start, loaded)


def find_adapters(host: Deployment) -> list[Deployment]:
    """The adapters that its server is to have: of its base model, and as they were exported."""
    if host.version_id is not None:
        return []
    rows = Deployment.objects.filter(agent=host.agent_id, target=Deployment.Target.ADAPTER).order_by("pk")
    own = rows.filter(version__base_model=host.settings.get("base_model", ""))
    files = ((row, settings.DATA_DIR / row.path) for row in own)
    return [row for row, file in files if file.is_file() and sha256_of(file) == row.sha256]


def spawn_child(
    module: str,
    folder: Path,
    number: int,
    request: dict[str, Any],
    log: BinaryIO,
    variables: dict[str, str],
    inherited: tuple[int, ...] = (),
) -> tuple[subprocess.Popen[bytes], float]:
    """The process, which runs on by itself and reads the request, and when it started, in seconds since 1970.
    ``variables`` are given to it beside those that a process which reads model files may have."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, str(folder), str(number)],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        cwd=settings.BASE_DIR,
        env={name: value for name, value in os.environ.items() if _PASSED_ON.fullmatch(name)} | variables,
        pass_fds=inherited,
        start_new_session=True,
    )
    started = psutil.Process(process.pid).create_time()
    assert process.stdin is not None  # noqa: S101
    with suppress(BrokenPipeError), process.stdin:
        process.stdin.write(json.dumps(request).encode())
    return process, started


def end(process: psutil.Process | subprocess.Popen[bytes]) -> None:
    """Answers that are being written get a few seconds."""
    with suppress(psutil.NoSuchProcess):
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except (psutil.TimeoutExpired, subprocess.TimeoutExpired):
            process.kill()
            process.wait(END_SECONDS)


def cause_of_death(deployment: Deployment) -> str:
    """What the end of its log says, after a colon; empty where it says nothing."""
    log = _log_of(deployment)
    return cause_in(read_tail(log)) if log.exists() else ""


def _free_port(wanted: int) -> int:
    """``wanted`` where it is free; 0: any."""
    try:
        with socket.create_server(("127.0.0.1", wanted)) as server:
            return int(server.getsockname()[1])
    except OSError:
        if not wanted:
            raise
    return _free_port(0)


def _log_of(deployment: Deployment) -> Path:
    return servers_folder() / f"{deployment.pk}.log"


def read_tail(log: Path, start: int = 0) -> str:
    """The last 64 KiB, from the byte ``start`` on."""
    with log.open("rb") as file:
        file.seek(max(start, file.seek(0, os.SEEK_END) - (1 << 16)))
        return file.read().decode("utf-8", "replace")
