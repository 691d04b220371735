from pathlib import Path

import pytest

from tests.from_systems.openai_tuning.callers import TuningCaller, caller


@pytest.fixture
def tuner(db: None, data_dir: Path) -> TuningCaller:
    """With a key that is for all agents."""
    return caller()
