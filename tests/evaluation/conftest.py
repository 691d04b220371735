"""The tiny base model, adapters on it, and pairs to score."""

from pathlib import Path
from typing import Any

import pytest

Row = dict[str, Any]


@pytest.fixture(scope="session")
def adapter(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.export.tiny_models import build_adapter

    return build_adapter(tmp_path_factory.mktemp("adapter"), tiny_base, seed=3)


@pytest.fixture(scope="session")
def other_adapter(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.export.tiny_models import build_adapter

    return build_adapter(tmp_path_factory.mktemp("other_adapter"), tiny_base, seed=4)


def pair(number: int, chosen: str, rejected: str) -> Row:
    """The prompt is ``number`` sentences long."""
    return {
        "prompt_key": f"q{number}",
        "prompt": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": f"Where is parcel {number}?" * number},
        ],
        "chosen": [{"role": "assistant", "content": chosen}],
        "rejected": [{"role": "assistant", "content": rejected}],
    }


PAIRS = [
    pair(1, "Open Orders and choose Track.", "We are very sorry to hear that."),
    pair(4, "It is on the van.", "Please be patient with us for a while, thank you for your understanding."),
    pair(2, "Zürich, 東京 🙂", ""),
]
TOO_LONG = pair(40, "Yes.", "No.")
"""For 128 tokens."""
