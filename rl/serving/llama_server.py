"""llama.cpp servers: one process for each deployment, detached, on 127.0.0.1. The queue looks after them every minute.

A row whose target is llama.cpp and that has a process number is meant to run. Servers of other machines are left alone."""

import http.client
import logging
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil
from django.conf import settings

from rl.base.errors import ExportFailed, RunConflict
from rl.base.find_process import find_process
from rl.base.locks import device_lock
from rl.base.records import Report, silent
from rl.export.llama_cpp.process import is_available
from rl.models import Deployment, TrainingRun
from rl.serving.llama_server_process import (
    Busy,
    Server,
    cause_of_death,
    end,
    is_stuck,
    let_finish,
    not_now,
    servers_folder,
    spawn,
)
from rl.serving.upstreams import upstream_of

logger = logging.getLogger(__name__)

MAX_RESTARTS = 3
"""Most restarts in a row before a server is given up."""
STEADY_SECONDS = 600
"""A server that has run for so long is well again."""
_BASE_SECONDS = 60.0
_SLOWEST_BYTES_PER_SECOND = 1e7
"""Slowest pace at which a model file may be read, which happens twice: for its SHA-256 and to load it."""
_POLL_SECONDS = 0.1
_SURE_SECONDS = 10.0


def require() -> None:
    """Raises ExportFailed when the package that serves is not installed."""
    if not is_available():
        raise ExportFailed("serving by llama.cpp needs the package xllamacpp; install it with: pip install xllamacpp")


def start(deployment: Deployment, *, report: Report = silent) -> None:
    """Starts the server of the row, which has a primary key, waits until it answers, and saves the row with its place. What
    served the row until then goes on until the new one answers, and ends. Raises ExportFailed, with the reason that
    llama.cpp gives, for a file that is not the exported one or that it cannot load, and for a server that does not come up
    in time; nothing is saved then."""
    require()
    path = model_path(deployment)
    if not path.is_file():
        raise ExportFailed(f"there is no file {path}; export the version again")
    with _lock(waiting(report)):
        before = find_process(deployment.pid, deployment.pid_started)
        earlier = upstream_of(deployment) if before and deployment.url else None
        server = spawn(deployment)
        try:
            _wait_for(server, path, report)
        except BaseException:
            end(server.process)
            raise
        _save(deployment, server, restarts=0)
        if before is not None:
            let_finish(earlier)
            end(before)


def stop(deployment: Deployment) -> None:
    """Ends the process; nobody starts it again by itself. Raises RunConflict for another machine's."""
    if deployment.pid is not None and not _is_here(deployment):
        raise RunConflict(f"the server of {deployment.model_name} runs on {deployment.host}; stop it there")
    with _lock(waiting(silent)):
        if process := find_process(deployment.pid, deployment.pid_started):
            end(process)
        deployment.url, deployment.pid, deployment.pid_started = "", None, None
        deployment.save(update_fields=["url", "pid", "pid_started"])


def is_alive(deployment: Deployment) -> bool:
    """Whether its process runs on this machine, or may run on another."""
    if deployment.pid is None:
        return False
    return not _is_here(deployment) or find_process(deployment.pid, deployment.pid_started) is not None


def memory_bytes(deployment: Deployment) -> int | None:
    """Resident; None where no process of it runs here."""
    process = find_process(deployment.pid, deployment.pid_started) if _is_here(deployment) else None
    with suppress(psutil.Error):
        return int(process.memory_info().rss) if process else None
    return None


def suspend(run: TrainingRun) -> list[str]:
    """Ends the servers of this machine for as long as the run is at work; their names."""
    with _lock(waiting(silent)):
        rows = [row for row in _meant_to_run() if is_alive(row) and _is_here(row)]
        for row in rows:
            _note(row, unloaded_for=run.pk)
            if process := find_process(row.pid, row.pid_started):
                end(process)
    return [row.model_name for row in rows]


def resume(run: TrainingRun) -> list[str]:
    """Starts what was ended for the run, at the same addresses, without waiting; their names."""
    with _lock(waiting(silent)):
        rows = [row for row in _meant_to_run() if _is_here(row) and row.settings.get("unloaded_for") == run.pk]
        for row in rows:
            _come_back(row, _restarts(row))
    return [row.model_name for row in rows]


def supervise() -> dict[str, int]:
    """One round: starts servers that died, gives up those that do not stay up, ends processes that belong to no row. It
    waits for nothing, and does nothing while somebody else starts or ends servers."""
    counts = {"started": 0, "given_up": 0, "ended": 0}
    with suppress(Busy), _lock(not_now):
        rows = [row for row in _meant_to_run() if _is_here(row)]
        for row in rows:
            if _is_suspended(row):
                continue
            if find_process(row.pid, row.pid_started) is None:
                counts[_restart(row)] += 1
            elif _restarts(row) and time.time() - (row.pid_started or 0) > STEADY_SECONDS:
                _note(row, restarts=0)
        # processes of this DATA_DIR that no row names: their start was cut short, or their row was deleted
        owned = {row.pid for row in rows}
        ended = 0
        for process in psutil.process_iter(["cmdline"]):
            command = process.info["cmdline"] or []
            if str(servers_folder()) in command and Server.MODULE in command and process.pid not in owned:
                logger.warning("process %s serves a model that no deployment names any more; it is ended", process.pid)
                end(process)
                ended += 1
        counts["ended"] = ended
    return counts


def revive(number: int) -> bool:
    """Ends the server of the deployment where it stands still, and starts it at the same address; whether it did. What it
    was held up by says nothing against its file: this counts as no restart. Does nothing while somebody else starts or ends
    servers."""
    with suppress(Busy), _lock(not_now):
        row = Deployment.objects.filter(pk=number, target=Deployment.Target.LLAMA_CPP).first()
        process = find_process(row.pid, row.pid_started) if row and _is_here(row) else None
        if (
            row is None
            or process is None
            or "unloaded_for" in row.settings
            or not is_stuck(upstream_of(row), _SURE_SECONDS)
        ):
            return False
        logger.warning("deployment %s: its server stood still; it is started anew", row.pk)
        process.kill()  # it would not hear SIGTERM
        with suppress(psutil.TimeoutExpired):
            process.wait(_SURE_SECONDS)
        _come_back(row, _restarts(row))
        return True
    return False


def _is_suspended(deployment: Deployment) -> bool:
    """Its run may have died without a word: then it comes back now."""
    run = deployment.settings.get("unloaded_for")
    if run is None:
        return False
    if not TrainingRun.objects.filter(pk=run, state=TrainingRun.State.RUNNING).exists():
        _come_back(deployment, _restarts(deployment))
    return True


def _come_back(deployment: Deployment, restarts: int) -> None:
    """Restarts the server at the same port, so that who knows the address need not ask again."""
    _save(deployment, spawn(deployment, urlsplit(deployment.url).port or 0), restarts=restarts)


def _restarts(deployment: Deployment) -> int:
    return int(deployment.settings.get("restarts", 0))


def model_path(deployment: Deployment) -> Path:
    return settings.DATA_DIR / deployment.path  # an absolute path stays as it is


def _meant_to_run() -> list[Deployment]:
    return list(Deployment.objects.filter(target=Deployment.Target.LLAMA_CPP, pid__isnull=False))


def _is_here(deployment: Deployment) -> bool:
    return deployment.host == os.uname().nodename


def _restart(deployment: Deployment) -> str:
    restarts = _restarts(deployment) + 1
    reason = cause_of_death(deployment)
    if restarts > MAX_RESTARTS or not is_available():
        logger.error("deployment %s is given up after %s restarts%s", deployment.pk, restarts - 1, reason)
        deployment.url, deployment.pid, deployment.pid_started = "", None, None
        deployment.save(update_fields=["url", "pid", "pid_started"])
        _note(deployment, error=f"given up after {restarts - 1} restarts{reason}")
        return "given_up"
    logger.warning("deployment %s: its server died%s; restart %s of %s", deployment.pk, reason, restarts, MAX_RESTARTS)
    _come_back(deployment, restarts)
    return "started"


def _save(deployment: Deployment, server: Server, *, restarts: int) -> None:
    deployment.url, deployment.host = server.url, os.uname().nodename
    deployment.pid, deployment.pid_started = server.process.pid, server.started
    deployment.target = Deployment.Target.LLAMA_CPP
    old = ("error", "unloaded_for", "adapters")
    kept = {name: value for name, value in deployment.settings.items() if name not in old}
    loaded = {"adapters": list(server.adapters)} if server.adapters else {}
    deployment.settings = {**kept, "restarts": restarts, **loaded}
    deployment.save()


def _note(deployment: Deployment, **values: object) -> None:
    deployment.settings = {**deployment.settings, **values}
    deployment.save(update_fields=["settings"])


def _wait_for(server: Server, path: Path, report: Report) -> None:
    report("stage", {"name": "starting llama.cpp"})
    limit = _BASE_SECONDS + path.stat().st_size / _SLOWEST_BYTES_PER_SECOND
    began = time.monotonic()
    while not _answers(server.url):
        waited = time.monotonic() - began
        if server.process.poll() is not None:
            code = server.process.returncode
            what = f"crashed on {path.name} (signal {-code})" if code < 0 else f"cannot serve {path.name}"
            raise ExportFailed(f"llama.cpp {what}{server.cause()}")
        if waited > limit:
            raise ExportFailed(f"llama.cpp did not answer within {limit:.0f} s with {path.name}; see {server.log}")
        report("step", {"step": int(waited), "total_steps": int(limit), "metrics": {}})
        time.sleep(_POLL_SECONDS)


def _answers(url: str) -> bool:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=2)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _lock(when_held: Callable[[], None]) -> AbstractContextManager[None]:
    return device_lock(settings.DATA_DIR / "locks", "servers", when_held)


def waiting(report: Report) -> Callable[[], None]:
    """Reports that it goes on, for whoever waits for a lock."""
    return lambda: report("step", {"step": 0, "total_steps": 1, "metrics": {}})
