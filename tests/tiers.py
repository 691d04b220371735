"""Three tiers of tests, told apart by what a test does.

``unit``, which needs no mark: no other process, no port, no sleep, no torch. ``process``: servers, the sandbox, browsers,
commands. ``learn``: torch. What a fixture did counts for each test that uses it: in another order, or alone, that test would
have been the one to start it.

``--tier`` runs the tests of one, in processes of their own: where one test has imported torch, nobody sees who else does.
The first two refuse torch, for files too that pytest only reads.
"""

import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from tests.deeds import ALLOWED, CHILD, SLEEP, TIERS, TORCH, WATCH, tier_of

_OF_MODULE = re.compile(r"^pytestmark = (?:\[$.*?^\]|.*?$)", re.DOTALL | re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=TIERS, help="only the tests of this tier (tests/tiers.py)")


def pytest_configure(config: pytest.Config) -> None:
    WATCH.refuses_torch = config.getoption("--tier") in ("unit", "process")
    sys.addaudithook(WATCH.audit)
    _watch_what_is_not_audited()


def _watch_what_is_not_audited() -> None:
    sleep, start = time.sleep, BaseProcess.start

    def sleeping(seconds: float) -> None:
        if seconds > 0 and threading.current_thread() is threading.main_thread():
            WATCH.note(SLEEP)
        sleep(seconds)

    def starting(process: BaseProcess) -> None:
        WATCH.note(CHILD)
        start(process)

    time.sleep, BaseProcess.start = sleeping, starting  # type: ignore[method-assign]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files that have nothing of the tier, or of the mark, are not even imported: that takes most of a short run."""
    tier, mark = config.getoption("--tier"), config.getoption("markexpr")
    if collection_path.suffix != ".py" or not (tier or mark.isidentifier()):
        return None
    text = collection_path.read_text(encoding="utf-8")
    if not tier:
        return f"mark.{mark}" not in text or None
    whole_file = _tiers_in("".join(_OF_MODULE.findall(text)))
    if tier == "unit":
        return bool(whole_file) or None
    return None if tier in _tiers_in(text) and whole_file <= {tier, "process"} else True


def _tiers_in(text: str) -> set[str]:
    return {tier for tier in TIERS if f"mark.{tier}" in text}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest files come first: no process waits long for the last of the others."""
    if tier := config.getoption("--tier"):
        config.hook.pytest_deselected(items=[item for item in items if tier_of(item) != tier])
        items[:] = [item for item in items if tier_of(item) == tier]
        slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
        items.sort(key=lambda item: -slow[item.path])


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Generator[None, Any, Any]:
    with WATCH.into(WATCH.of_fixtures.setdefault(fixturedef, set())):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    WATCH.doing[0].clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    result = yield
    tier = tier_of(item)
    if too_much := sorted(WATCH.deeds(item) - ALLOWED[tier]):
        needed = "learn" if TORCH in too_much else "process"
        pytest.fail(
            f"of the tier {tier}, but {' and '.join(too_much)}: mark it {needed} (tests/tiers.py)", pytrace=False
        )
    return result
