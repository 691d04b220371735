"""The watch sees each kind of deed, and stops it."""

import importlib.util
import os
import socket
import subprocess
import urllib.request
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.boundary.canaries import ADDRESS, COMMAND, DOTTED, PATH, VARIABLE
from tests.boundary.watching import TOKEN, Deed, watching

pytestmark = pytest.mark.process


DEEDS: dict[str, Callable[[], Any]] = {
    "subprocess": lambda: subprocess.run(COMMAND, check=False),
    "a shell": lambda: os.system(" ".join(COMMAND)),
    "argument of a program": lambda: subprocess.run(["/bin/true", COMMAND[0]], check=False),
    "exec": lambda: os.execv(COMMAND[0], COMMAND),
    "posix_spawn": lambda: os.posix_spawn(COMMAND[0], COMMAND, {}),
    "import": lambda: import_module(DOTTED.partition(".")[0]),
    "looking for a module": lambda: importlib.util.find_spec(DOTTED.partition(".")[0]),
    "open": lambda: Path(PATH).read_text(),
    "exists": lambda: Path(PATH).exists(),
    "is_dir": lambda: Path(PATH).is_dir(),
    "access": lambda: os.access(PATH, os.R_OK),
    "list": lambda: os.listdir(PATH),  # noqa: PTH208
    "glob": lambda: list(Path(PATH).glob("*")),
    "a name looked up": lambda: socket.getaddrinfo(f"{TOKEN}.invalid", 80),
    "a connection": lambda: socket.create_connection((f"{TOKEN}.invalid", 9), timeout=1),
    "a request": lambda: urllib.request.urlopen(ADDRESS, timeout=1),
    "getenv": lambda: os.getenv(VARIABLE),
    "a variable asked for": lambda: VARIABLE in os.environ,
    "a variable": lambda: os.environ[VARIABLE],
}


@pytest.mark.parametrize("name", DEEDS)
def test_a_deed_is_seen_and_stopped(name: str, tmp_path: Path):
    with watching(tmp_path) as watch, pytest.raises(Deed):
        DEEDS[name]()
    assert len(watch.deeds) == 1


def test_what_has_no_canary_and_what_lies_in_a_folder_of_ours_is_no_deed(tmp_path: Path):
    with watching(tmp_path) as watch:
        (tmp_path / TOKEN).mkdir()
        assert (tmp_path / TOKEN).is_dir()
        assert os.getenv("HOME")
        assert subprocess.run(["/bin/true"], check=False).returncode == 0
    assert watch.deeds == []
    assert not Path(PATH).exists()
