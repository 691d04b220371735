"""What a program of an agent can reach, and what it cannot: tried, and written down in docs/security.md."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import security_tables
from tests.environments.program.agents import play, program, task
from tests.environments.program.attacks import ATTACKS, DAEMON, LINGER, PRELUDE, Attack

OUTLIVE = ("background", "other_session", "race_the_end", "daemon_without_a_trace")
"""They are won by being there after the end."""
PATIENCE_SECONDS = 10


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A file, a server and a process of the user, a variable of the training, and another episode's folder."""
    monkeypatch.setenv("COOKIE", "of the training")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "ratchet-episode-other").mkdir()
    (tmp_path / "ratchet-episode-other/file").touch()
    (tmp_path / "secret").write_text("the user's")
    victim = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
    with socket.create_server(("127.0.0.1", 0)) as server, tempfile.TemporaryFile() as inheritable:
        os.set_inheritable(inheritable.fileno(), True)
        yield {"file": str(tmp_path / "secret"), "port": server.getsockname()[1], "victim": victim.pid}
    victim.kill()
    victim.wait()


@pytest.mark.process
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_the_attack_is_won_where_the_page_says_so_and_nowhere_else(
    attack: Attack, world: dict[str, Any], tmp_path: Path
):
    assert bool(evidence(attack, world, tmp_path)) is attack.is_open


def evidence(attack: Attack, facts: dict[str, Any], folder: Path) -> str:
    """What was won; empty where nothing was."""
    mark = str(folder / "lingers")
    code = PRELUDE + DAEMON + wait_for(attack, mark, attack.program)
    [end], _ = play(program(code), [task(0, facts=facts, linger=LINGER.format(file=mark))])
    assert end.success, end
    lines = [line for line in end.info["output"].splitlines() if line.startswith("WON")]
    left = [path.name for path in folder.glob("ratchet-episode-*") if path.name != "ratchet-episode-other"]
    running = lingering(mark)
    for pid in running:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    long = "the output was kept" if len(end.info["output"]) > 2**20 else ""
    return "; ".join([*lines, *left, *map(str, running), long]).strip("; ")


def wait_for(attack: Attack, mark: str, code: str) -> str:
    """The program ends when what is to outlive it runs: else nothing would be tried."""
    return f"{code}\nwhile not os.path.exists({mark!r}): time.sleep(0.02)" if attack.name in OUTLIVE else code


def lingering(mark: str) -> list[int]:
    """Processes with that text in their code, once the ended ones are gone."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        pids = []
        for process in psutil.process_iter(["cmdline", "status"]):
            is_dead = process.info["status"] == psutil.STATUS_ZOMBIE
            if not is_dead and mark in " ".join(process.info["cmdline"] or ()) and process.pid != os.getpid():
                pids.append(process.pid)
        if not pids or time.monotonic() > until:
            return pids
        time.sleep(0.1)


@pytest.mark.process
def test_a_key_is_good_for_nothing_after_its_episode(world: dict[str, Any], tmp_path: Path):
    later = tmp_path / "address"
    code = f"open({str(later)!r}, 'w').write(os.environ['OPENAI_BASE_URL'])"
    use = f"""
import pathlib
address = pathlib.Path({str(later)!r}).read_text()
won(address != os.environ["OPENAI_BASE_URL"] and "message" in {{**ask_at(address)}})
"""
    asks = 'def ask_at(address):\n    os.environ["OPENAI_BASE_URL"] = address\n    return ask([user("hello")])\n'
    environment = program(PRELUDE + asks + f"exec({code!r} if task['task_id'] == 't0' else {use!r})")
    ends, _ = play(environment, [task(number, facts=world, linger="") for number in range(2)], at_once=1)
    assert all(end.success for end in ends), ends
    assert "WON" not in ends[1].info["output"]


def test_the_security_page_has_the_table():
    rows = [(f"`{each.name}`", each.what, "open, by design" if each.is_open else "held") for each in ATTACKS]
    security_tables.check("programs", security_tables.table(("attack", "what is tried", "result"), *rows))
