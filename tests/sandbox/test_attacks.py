"""Every attack on every backend: none may be won. And without a box they are won, or they would prove nothing."""

import fcntl
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from rl.base.errors import SandboxUnavailable
from rl.sandbox import Limits, Result
from rl.sandbox.attacks import AREAS, ATTACKS, Attack, checking
from rl.sandbox.attacks.checking import World
from rl.sandbox.backends import BACKENDS, why_unavailable
from rl.sandbox.contract import UNPRIVILEGED_ID
from rl.sandbox.programs import interpreter
from tests import security_tables
from tests.missing import missing
from tests.sandbox.conftest import tried_with

pytestmark = pytest.mark.process


HARMLESS = (
    "memory_of_memfd",
    "memory_locked",
    "raise_limits",
    "one_big_file",
    "sparse_file",
    "replace_known_name",
    "read_settings",
    "read_database",
    "write_database",
    "environment",
    "environment_of_others",
    "see_processes",
    "root_of_others",
    "inherited_descriptors",
    "link_to_secret",
    "path_out_of_the_box",
    "list_folders",
    "tcp_loopback",
    "udp",
    "listen",
    "unix_abstract",
    "unix_path",
    "unix_pair_redirected",
    "other_families",
    "connections_of_others",
    "stop_by_number",
    "outlive_the_run",
    "sleep_for_ever",
)
"""Attacks that may be tried without a box, because they harm nothing but their own world."""


ENDLESS = ("sleep_for_ever", "outlive_the_run")
"""They are won by running until somebody stops them."""


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_the_attack_is_not_won(attack: Attack, backend: str):
    assert tried_with(backend)[attack.name].evidence == ""


def test_there_are_at_least_fifty_and_each_has_a_name_of_its_own():
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) >= 50


@pytest.mark.parametrize("attack", [a for a in ATTACKS if a.name in HARMLESS], ids=lambda attack: attack.name)
def test_the_attack_is_won_where_there_is_no_box(attack: Attack, monkeypatch):
    monkeypatch.setattr(checking, "run", without_a_box)
    monkeypatch.setattr(checking, "_LATE_SECONDS", 0)
    seconds = 1.5 if attack.name in ENDLESS else 60
    with inheritable_descriptor():
        found = checking.evidence(replace(attack, limits=replace(attack.limits, wall_seconds=seconds)), "none")
    for pid in re.findall(r"process (\d+) is left", "; ".join(found)):
        os.kill(int(pid), signal.SIGKILL)
    assert found
    assert "did not run" not in " ".join(found)


@contextmanager
def inheritable_descriptor() -> Iterator[None]:
    """As a web process may have one open, with a high number, because it holds many files."""
    with tempfile.TemporaryFile() as file:
        number = fcntl.fcntl(file.fileno(), fcntl.F_DUPFD, 500)
        try:
            yield
        finally:
            os.close(number)


def without_a_box(code: str, language: str, stdin: str, limits: Limits, backend: str) -> Result:
    drop = ["setpriv", f"--reuid={UNPRIVILEGED_ID}", f"--regid={UNPRIVILEGED_ID}", "--clear-groups", "--"]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        program = Path(folder, "program")
        program.write_text(code)
        program.chmod(0o644)
        command = [*([] if os.geteuid() else drop), *interpreter(language).command, str(program)]
        started = time.monotonic()
        process = subprocess.Popen(
            command,
            stdin=-1,
            stdout=-1,
            stderr=-1,
            cwd=folder,
            close_fds=False,
            start_new_session=True,
            text=True,
        )
        try:
            stdout, stderr = process.communicate(stdin, timeout=limits.wall_seconds + 0.1)
        except subprocess.TimeoutExpired:
            process.kill()
            stdout, stderr = "ran", ""
        duration = time.monotonic() - started
    return Result(stdout, stderr, process.wait(), False, False, duration)


def test_a_program_that_does_not_run_counts_as_lost(backend: str):
    broken = Attack("broken", "nothing", "", limits=Limits(memory_bytes=2**20))
    assert "did not run" in checking.evidence(broken, backend)[0]


def test_a_box_that_breaks_counts_as_lost(monkeypatch):
    def broken(*arguments: object, **options: object) -> Result:
        raise SandboxUnavailable("no room")

    monkeypatch.setattr(checking, "run", broken)
    assert checking.evidence(ATTACKS[0], "none") == ["the box broke: no room"]


def test_damage_is_seen_from_outside():
    with World() as world:
        assert world.damage() == []
        (world.folder / "db.sqlite3").write_text("changed")
        world.victim.kill()
        world.victim.wait()
        left = subprocess.Popen(["sleep", f"5.{world.cookie}"])
        while not Path(f"/proc/{left.pid}/cmdline").read_bytes():  # the kernel sets it a moment later
            time.sleep(0.01)
        try:
            assert world.damage() == ["db.sqlite3 was changed", "the victim was killed", f"process {left.pid} is left"]
        finally:
            left.kill()
            left.wait()


def test_the_table_of_the_security_page_is_what_was_seen():
    for name in BACKENDS:
        if why_unavailable(name):
            missing(f"the sandbox backend {name}", "bubblewrap libseccomp2")
    parts = []
    for area, attacks in AREAS.items():
        rows = [("attack", "what must not happen", *BACKENDS)]
        for attack in attacks:
            results = ("held" if tried_with(name)[attack.name].held else "LOST" for name in BACKENDS)
            rows.append((f"`{attack.name}`", attack.must_not, *results))
        parts.append(f"**{area[0].upper()}{area[1:]}**\n\n{security_tables.table(*rows)}")
    security_tables.check("attacks", "\n\n".join(parts))
