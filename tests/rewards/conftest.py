import pytest

from rl.base.errors import SandboxUnavailable
from rl.sandbox import ensure_available
from tests.missing import missing


@pytest.fixture
def _sandbox() -> None:
    """Skips where untrusted code cannot be run safely."""
    try:
        ensure_available()
    except SandboxUnavailable:
        missing("bubblewrap", "bubblewrap")
