from collections.abc import Iterator
from pathlib import Path

import pytest

from rl.from_systems.sources.registered import FeedbackSource, find_source
from tests.from_systems.sources.open_webui import KEY, OpenWebUI, open_webui


@pytest.fixture
def double() -> Iterator[OpenWebUI]:
    with open_webui() as there:
        yield there


@pytest.fixture
def source(double: OpenWebUI, data_dir: Path, tmp_path: Path, settings, monkeypatch) -> FeedbackSource:
    monkeypatch.setenv("OPEN_WEBUI_KEY", KEY)
    settings.SOURCES_FILE = str(tmp_path / "sources.yaml")
    Path(settings.SOURCES_FILE).write_text(
        f"chat:\n  system: openwebui\n  url: {double.url}/\n  key_env: OPEN_WEBUI_KEY\n  agent: support-chat\n"
    )
    return find_source("chat")
