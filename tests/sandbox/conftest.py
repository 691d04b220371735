from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from rl.sandbox.attacks import AttackResult
from rl.sandbox.attacks.checking import try_all
from rl.sandbox.backends import BACKENDS, why_unavailable
from tests.missing import missing


@pytest.fixture(params=list(BACKENDS))
def backend(request) -> str:
    """Each backend in turn."""
    complaint = why_unavailable(request.param)
    if complaint:
        missing(f"the sandbox backend {request.param} ({complaint})", "bubblewrap libseccomp2")
    return request.param


@cache
def tried_with(backend: str) -> dict[str, AttackResult]:
    """Every attack, once: the tests look at what was recorded."""
    return {each.attack.name: each for each in try_all(backend)}


def is_alive(pid: int) -> bool:
    """A zombie counts as gone."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def children(pid: int) -> list[int]:
    with suppress(FileNotFoundError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []
