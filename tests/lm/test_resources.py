import gc
import resource
import signal
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from rl.base.errors import TrainingFailed
from rl.base.records import silent
from rl.config.training_job import LEARNED_ROWS
from rl.lm import checkpoints, loading
from rl.lm.resources import resource_advice
from rl.training import dpo
from rl.training.reward_scoring import load_scoring_base
from tests.training.conftest import job

pytestmark = pytest.mark.learn


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file of this process may grow beyond 100 kB: to a writer that looks like a full disk."""
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"),
    ],
)
def test_running_out_of_memory_becomes_advice(error: Exception):
    with pytest.raises(TrainingFailed, match="halve batch_size"), resource_advice():
        raise error


def test_other_errors_pass():
    with pytest.raises(RuntimeError, match="shape mismatch"), resource_advice():
        raise RuntimeError("shape mismatch")


@pytest.mark.parametrize("load", [loading.load_base, load_scoring_base])
def test_a_model_that_nothing_uses_is_gone_before_the_next_is_loaded(load: Any, tiny_base: Path):
    gc.disable()
    try:
        model = load(str(tiny_base), "fp32")
        model.itself = model  # as its trainer does
        last = weakref.ref(model)
        del model
        assert last() is not None
        load(str(tiny_base), "fp32")
        assert last() is None
    finally:
        gc.enable()


@pytest.mark.usefixtures("small_files")
def test_a_full_disk_is_one_clear_error_and_leaves_no_checkpoint(tiny_base: Path, tmp_path: Path):
    with pytest.raises(TrainingFailed, match="disk is full"):
        dpo.train(job(tiny_base, tmp_path, save_steps=1), silent)
    assert checkpoints.newest_complete(tmp_path / "run") is None
    assert [path.name for path in (tmp_path / "run").iterdir()] == [LEARNED_ROWS]
