from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from rl.base.errors import UsageError
from rl.hardware import choose_gpu, choosing, require_device

VISIBLE = "CUDA_VISIBLE_DEVICES"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(VISIBLE, "kept by monkeypatch")
    monkeypatch.delenv(VISIBLE)
    choosing._visible_at_first.cache_clear()
    yield
    choosing._visible_at_first.cache_clear()


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda", "mps"])
def test_without_a_number_nothing_is_hidden(device: str):
    choose_gpu(device)
    assert VISIBLE not in os.environ


def test_all_other_gpus_are_hidden_however_often_it_is_asked():
    choose_gpu("cuda:2")
    choose_gpu("cuda:2")
    assert os.environ[VISIBLE] == "2"


def test_numbers_count_what_was_visible(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VISIBLE, "3, GPU-abc")
    choose_gpu("cuda:1")
    choose_gpu("cuda:1")
    assert os.environ[VISIBLE] == "GPU-abc"
    with pytest.raises(UsageError, match="there is no device cuda:2 here: CUDA_VISIBLE_DEVICES leaves 2"):
        choose_gpu("cuda:2")


@pytest.mark.parametrize(
    ("device", "gpus", "words"),
    [
        ("cuda:0", 0, "there is no device cuda:0 here: leave it out, or take cpu"),
        ("cuda", 0, "there is no device cuda here"),
        ("cuda:1", 1, "there is cuda:0 only"),
        ("cuda:4", 2, "there are cuda:0 to cuda:1"),
    ],
)
def test_a_gpu_that_is_not_here_is_refused(device: str, gpus: int, words: str):
    with pytest.raises(UsageError, match=words):
        require_device(device, gpus)


def test_a_gpu_that_is_here_is_taken():
    require_device("cuda:1", 2)
    require_device("cuda", 1)
