"""Tiny models and adapters, each made once per session."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny_adapter(tiny_model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``tiny_adapter("llama")``: a plain adapter on that family's model, which tests must not change."""
    from tests.export.tiny_models import build_adapter

    root = tmp_path_factory.mktemp("tiny_adapters")

    def build(family: str) -> Path:
        directory = root / family
        return directory if directory.exists() else build_adapter(directory, tiny_model(family))

    return build
