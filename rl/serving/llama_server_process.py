"""Starting, finding and ending the process of a llama.cpp server, and what its log says of its end."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import psutil
from django.conf import settings

from rl.export.llama_cpp.process import cause_in
from rl.models import Deployment
from rl.serving.upstreams import server_key

END_SECONDS = 10.0
_TAIL_BYTES = 1 << 16
_PASSED_ON = re.compile(r"(PATH|HOME|LANG|LC_\w+|TMPDIR|LD_LIBRARY_PATH|(CUDA|NVIDIA|HIP|ROCR|OMP|GGML)_\w+)")
"""Variables that the server gets: a model file that takes llama.cpp over should find no secret of the site in them."""


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

    def cause(self) -> str:
        return cause_in(_read(self.log, self.log_start))


def servers_folder() -> Path:
    return settings.DATA_DIR / "servers"


def spawn(deployment: Deployment, port: int = 0) -> Server:
    """Does not wait for it. Its key goes by standard input: process lists and environments can be read by others."""
    servers_folder().mkdir(parents=True, exist_ok=True)
    log = _log_of(deployment)
    port = port if port and _is_free(port) else _free_port()
    with log.open("ab") as output:
        log_start = output.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", Server.MODULE, str(servers_folder()), str(deployment.pk)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd=settings.BASE_DIR,
            env=server_environment(),
            start_new_session=True,
        )
    started = psutil.Process(process.pid).create_time()
    assert process.stdin is not None  # noqa: S101
    with suppress(BrokenPipeError), process.stdin:
        process.stdin.write(json.dumps(_request(deployment, port)).encode())
    return Server(process, started, f"http://127.0.0.1:{port}", log, log_start)


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
    return cause_in(_read(log, 0)) if log.exists() else ""


def _request(deployment: Deployment, port: int) -> dict[str, Any]:
    chosen = deployment.settings
    return {
        "path": str(settings.DATA_DIR / deployment.path),
        "sha256": deployment.sha256,
        "name": deployment.model_name,
        "key": server_key(deployment),
        "port": port,
        **{name: chosen[name] for name in ("slots", "context", "threads", "gpu_layers", "kv_cache_type")},
    }


def server_environment() -> dict[str, str]:
    """Variables that a process which reads model files may have."""
    return {name: value for name, value in os.environ.items() if _PASSED_ON.fullmatch(name)}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def _log_of(deployment: Deployment) -> Path:
    return servers_folder() / f"{deployment.pk}.log"


def _read(log: Path, start: int) -> str:
    with log.open("rb") as file:
        file.seek(max(start, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return file.read().decode("utf-8", "replace")
