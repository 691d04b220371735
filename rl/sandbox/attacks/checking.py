"""Tries attacks on this machine, with the backends that it has, in a world where there is something to harm: a victim, open
sockets, settings with a secret, a database."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from rl.base.errors import SandboxUnavailable
from rl.sandbox.attacks import ATTACKS, Attack, AttackResult
from rl.sandbox.backends import run
from rl.sandbox.contract import UNPRIVILEGED_ID
from rl.sandbox.watching import stat_of

_SECONDS: Final = 120
"""The victim ends by itself after that."""
_READABLE, _WRITABLE = 0o755, 0o666


class World:
    """Nothing but the sandbox protects it: the folder is open to all, and the victim is of the user that the box has."""

    def __enter__(self) -> World:
        with ExitStack() as stack:
            self.cookie = str(secrets.randbelow(10**15) + 10**15)
            self._secret = f"SECRET_KEY = '{self.cookie}'\n"
            self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ratchet-attack-")))
            self.folder.chmod(_READABLE)
            self._settings, self._database, self._known = self._files = tuple(
                self.folder / name for name in ("settings.py", "db.sqlite3", "known-name")
            )
            for file in self._files:
                file.write_text(self._secret)
                file.chmod(_WRITABLE)
            # Inheritable on purpose: closing what is none of the program's business is the sandbox's work.
            descriptor = os.open(self._settings, os.O_RDONLY)
            os.set_inheritable(descriptor, True)
            stack.callback(os.close, descriptor)
            self._open_sockets(stack)
            self.victim = stack.enter_context(subprocess.Popen(self._victim_command(), env={"COOKIE": self.cookie}))
            stack.callback(self.victim.kill)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def facts(self, language: str) -> str:
        """What the program is told, on its stdin."""
        if language == "shell":
            return f"{self.cookie}\n"
        return json.dumps(
            {
                "cookie": self.cookie,
                "folder": str(self.folder),
                "settings": str(self._settings),
                "secret_length": 20,
                "database": str(self._database),
                "known": str(self._known),
                "package": str(Path(__file__).resolve()),
                "victim": self.victim.pid,
                "parent": os.getpid(),
                "port": self._tcp.getsockname()[1],
                "socket": self._path.getsockname(),
                "datagrams": self._datagrams.getsockname(),
                "abstract": f"\0{self.cookie}",
            }
        )

    def damage(self) -> list[str]:
        """What can be seen from outside, after the run."""
        findings = [
            f"{file.name} was changed"
            for file in self._files
            if file.is_symlink() or not file.exists() or file.read_text() != self._secret
        ]
        if self.victim.poll() is not None:
            findings.append("the victim was killed")
        elif stat_of(f"/proc/{self.victim.pid}")[0] in "Tt":
            findings.append("the victim was stopped or traced")
        findings += [f"{name} was reached" for name, listener in self._listeners() if _was_reached(listener)]
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if self.cookie.encode() in (folder / "cmdline").read_bytes() and int(folder.name) != self.victim.pid:
                    findings.append(f"process {folder.name} is left")
        return findings

    def _open_sockets(self, stack: ExitStack) -> None:
        self._tcp, self._udp = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
        self._path, self._abstract, self._datagrams = (
            socket.socket(socket.AF_UNIX, kind) for kind in (socket.SOCK_STREAM, socket.SOCK_STREAM, socket.SOCK_DGRAM)
        )
        self._tcp.bind(("127.0.0.1", 0))
        self._udp.bind(self._tcp.getsockname())
        self._path.bind(str(self.folder / "socket"))
        self._abstract.bind(f"\0{self.cookie}")
        self._datagrams.bind(str(self.folder / "datagrams"))
        for name in ("socket", "datagrams"):
            (self.folder / name).chmod(0o777)
        for _, listener in self._listeners():
            stack.enter_context(listener)
            listener.setblocking(False)
            if listener.type == socket.SOCK_STREAM:
                listener.listen()

    def _listeners(self) -> list[tuple[str, socket.socket]]:
        return [
            ("the TCP port", self._tcp),
            ("the UDP port", self._udp),
            ("the Unix socket", self._path),
            ("the abstract Unix socket", self._abstract),
            ("the Unix socket for datagrams", self._datagrams),
        ]

    def _victim_command(self) -> list[str]:
        sleep = [shutil.which("sleep") or "/bin/sleep", f"{_SECONDS}.{self.cookie}"]
        if os.geteuid():
            return sleep
        user = str(UNPRIVILEGED_ID)
        return ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--", *sleep]


def _was_reached(listener: socket.socket) -> bool:
    try:
        if listener.type == socket.SOCK_DGRAM:
            listener.recv(1)
        else:
            listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


_THREADS: Final = 2
_LATE_SECONDS: Final = 10.0
"""How much longer than its wall-clock limit a run may take on a busy machine."""


def try_all(backend: str, attacks: Sequence[Attack] = ATTACKS) -> Iterator[AttackResult]:
    """Results of the attacks, in the order given; two are tried at a time."""
    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(lambda attack: AttackResult(attack, backend, "; ".join(evidence(attack, backend))), attacks)


def evidence(attack: Attack, backend: str) -> list[str]:
    """What speaks against the box: what was won, seen from inside or outside, or that the program did not run."""
    findings: list[str] = []
    with World() as world:
        facts = world.facts(attack.language)
        for _ in range(attack.runs):
            try:
                result = run(attack.code(), attack.language, facts, attack.limits, backend=backend)
            except SandboxUnavailable as error:
                return [f"the box broke: {error}"]
            if not result.stdout.startswith("ran"):
                findings.append(f"the program did not run (exit {result.exit}): {result.stderr[-200:]}")
            findings += [line for line in result.stdout.splitlines() if line.startswith("WON")]
            if max(len(result.stdout), len(result.stderr)) > attack.limits.output_bytes:
                findings.append("more output was kept than allowed")
            if result.duration > attack.limits.wall_seconds + _LATE_SECONDS:
                findings.append(f"it ran for {result.duration:.1f} s")
        return findings + world.damage()
