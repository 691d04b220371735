from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.operations.webhooks.receiver import SECRET, Receiver, receiver, write_file


@pytest.fixture
def listener() -> Iterator[Receiver]:
    with receiver() as state:
        yield state


@pytest.fixture
def ops(listener: Receiver, tmp_path: Path, settings) -> Receiver:
    """An endpoint of this name that takes everything."""
    endpoint = {"url": listener.url, "secret": SECRET, "allow_private": True}
    settings.WEBHOOKS_FILE = write_file(tmp_path / "webhooks.yaml", ops=endpoint)
    return listener
