from __future__ import annotations

from functools import cache

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
