"""What tests do that decides about their tier: other processes, ports, sleeps, torch."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from types import FrameType
from typing import Any

import pytest

TIERS = ("unit", "process", "learn")
CHILD, PORT, SLEEP, TORCH = "starts another process", "binds a port", "sleeps", "imports torch"
ALLOWED = {
    "unit": frozenset(),
    "process": frozenset({CHILD, PORT, SLEEP}),
    "learn": frozenset({CHILD, PORT, SLEEP, TORCH}),
}
_CHILDREN = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec"})


class Watch:
    """What the test or fixture that runs at the moment has done; those outside it wait on the stack."""

    def __init__(self) -> None:
        self.doing: list[set[str]] = [set()]
        self.of_fixtures: dict[Any, set[str]] = {}
        self.refuses_torch = False

    def note(self, deed: str) -> None:
        self.doing[-1].add(deed)

    @contextmanager
    def into(self, deeds: set[str]) -> Iterator[None]:
        """What is done inside is noted there and nowhere else."""
        self.doing.append(deeds)
        try:
            yield
        finally:
            self.doing.pop()

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _CHILDREN:
            if not _is_importing():
                self.note(CHILD)
        elif event == "socket.bind" and isinstance(arguments[1], tuple):
            self.note(PORT)
        elif event == "import" and (arguments[0] == "torch" or arguments[0].startswith("torch.")):
            self.note(TORCH)
            if self.refuses_torch:
                pytest.fail("imports torch: mark it learn (tests/tiers.py)", pytrace=False)

    def deeds(self, item: pytest.Item) -> set[str]:
        """Of the test itself and of all fixtures that it uses."""
        fixtures = getattr(item, "_fixtureinfo").name2fixturedefs.values()  # noqa: B009  private to pytest
        return self.doing[0].union(*(self.of_fixtures.get(of_name[-1], set()) for of_name in fixtures))


WATCH = Watch()


def _is_importing() -> bool:
    """Some libraries ask other programs about the machine when they are imported, in whichever test needs them first."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib."):
        frame = frame.f_back
    return frame is not None


def not_counted() -> AbstractContextManager[None]:
    """For what is done once for all tests, and waited for by whichever comes first."""
    return WATCH.into(set())


def remembered(function: Callable[..., Any]) -> Callable[..., Any]:
    """What it did at its first call with these arguments counts at each, for it keeps what came of it."""
    deeds: dict[tuple[Any, ...], set[str]] = {}

    @wraps(function)
    def remembering(*arguments: Any) -> Any:
        done = deeds.setdefault(arguments, set())
        try:
            with WATCH.into(done):
                return function(*arguments)
        finally:
            WATCH.doing[-1].update(done)

    return remembering


def tier_of(item: pytest.Item) -> str:
    return next((tier for tier in ("learn", "process") if item.get_closest_marker(tier)), "unit")
