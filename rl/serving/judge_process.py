"""The process of an agent's judge: its folder, starting and ending it, and what is remembered of it.

Of each judge the folder ``DATA_DIR/judges`` holds, under the agent's number: a lock that the process has for as long as it
lives, what it was started with (JSON), its log, and its socket."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from rl.base.files import descriptor_of, write_text
from rl.base.find_process import find_process
from rl.base.locks import try_lock
from rl.serving.llama_server_process import end, read_tail, spawn_child

MODULE: Final = "rl.serving.judge_child"
_LONGEST_ADDRESS = 100
"""Bytes of a socket's name that every system has room for."""
_CACHES = ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME")


@dataclass(frozen=True, slots=True)
class Started:
    """What is remembered of a judge: with what it was started, and how that went."""

    name: str
    """The base model as the agent has it."""
    base_model: str
    """Its folder, or the hub's name of it."""
    max_length: int
    pid: int = 0
    pid_started: float = 0.0
    """Seconds since 1970."""
    restarts: int = 0
    label_model: int = 0
    """The newest one when it was started."""
    error: str = ""
    """Why it was given up."""

    def request(self) -> dict[str, Any]:
        return {"name": self.name, "base_model": self.base_model, "max_length": self.max_length}


def judges_folder() -> Path:
    return settings.DATA_DIR / "judges"


def path_of(agent_id: int, suffix: str) -> Path:
    """``suffix``: .sock, .lock, .log or .json."""
    return judges_folder() / f"{agent_id}{suffix}"


def read_started(agent_id: int) -> Started | None:
    """None for a judge that was never started, or was ended."""
    try:
        return Started(**json.loads(path_of(agent_id, ".json").read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def remember(agent_id: int, started: Started) -> None:
    write_text(path_of(agent_id, ".json"), json.dumps(asdict(started)))


def known_judges() -> list[int]:
    """Numbers of the agents whose judge was started."""
    return sorted(int(file.stem) for file in judges_folder().glob("*.json") if file.stem.isdecimal())


def ask_for(agent_id: int) -> None:
    """Remembers that somebody wants its judge now."""
    judges_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    path_of(agent_id, ".asked").touch()


def asked_since(moment: float) -> list[int]:
    """Numbers of the agents whose judge somebody wanted since then."""
    files = (file for file in judges_folder().glob("*.asked") if file.stem.isdecimal())
    return [int(file.stem) for file in files if file.stat().st_mtime > moment]


def is_alive(agent_id: int) -> bool:
    """Wherever on this machine it runs, in a container too."""
    with suppress(FileNotFoundError), path_of(agent_id, ".lock").open("rb") as lock:
        return not try_lock(lock.fileno())
    return False


def spawn(agent_id: int, wanted: Started) -> bool:
    """Does not wait until it answers; False where it lives already. The process inherits its lock, and no variable that is
    secret."""
    judges_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    where_models_lie = {name: os.environ[name] for name in _CACHES if name in os.environ}
    with path_of(agent_id, ".lock").open("wb") as lock, path_of(agent_id, ".log").open("wb") as log:
        if not try_lock(lock.fileno()):
            return False
        variables = {"HF_HUB_OFFLINE": "1", **where_models_lie}
        process, moment = spawn_child(
            MODULE, judges_folder(), agent_id, wanted.request(), log, variables, (lock.fileno(),)
        )
    remember(agent_id, replace(wanted, pid=process.pid, pid_started=moment, error=""))
    return True


def end_judge(agent_id: int) -> bool:
    """Ends it and forgets it; whether a process was there."""
    started = read_started(agent_id)
    process = find_process(started.pid, started.pid_started) if started else None
    if process is not None:
        end(process)
    for suffix in (".json", ".sock"):
        path_of(agent_id, suffix).unlink(missing_ok=True)
    return process is not None


def cause_of_death(agent_id: int) -> str:
    """The last line of its log, after a colon; empty where it says nothing."""
    log = path_of(agent_id, ".log")
    lines = read_tail(log).split("\n") if log.exists() else []
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f": {last[:300]}" if last else ""


@contextmanager
def address_of(socket_path: Path) -> Iterator[str]:
    """What a socket is connected to by: its path, or a short name of it where the path is too long for the system."""
    if len(os.fsencode(socket_path)) < _LONGEST_ADDRESS:
        yield str(socket_path)
        return
    with descriptor_of(socket_path.parent) as folder:
        yield f"/proc/self/fd/{folder}/{socket_path.name}"
