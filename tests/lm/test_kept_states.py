from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from rl.lm.kept_states import StateFile

pytestmark = pytest.mark.learn

MARK = "llama of two layers"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "states"


def states(tokens: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(tokens, 6, generator=torch.Generator().manual_seed(tokens)).to(dtype)


def filled(file: Path, *tokens: int) -> None:
    kept = StateFile(file, MARK)
    for number in tokens:
        kept.write(b"%d" % number, states(number))
    kept.close(keep=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_a_later_process_reads_what_an_earlier_one_wrote(file: Path, dtype: torch.dtype):
    for number in (3, 5):
        kept = StateFile(file, MARK)
        kept.write(b"%d" % number, states(number, dtype))
        assert torch.equal(kept.read(b"%d" % number), states(number, dtype))
        kept.close(keep=True)
    later = StateFile(file, MARK)
    assert b"3" in later
    assert b"5" in later
    assert b"4" not in later
    assert torch.equal(later.read(b"3"), states(3, dtype))
    later.close(keep=False)
    assert not file.exists()


def test_states_of_another_model_are_dropped(file: Path):
    filled(file, 3)
    other = StateFile(file, "llama of three layers")
    assert b"3" not in other
    other.close(keep=True)
    assert file.stat().st_size == 64


@pytest.mark.parametrize("lost", [1, 100, 5 * 6 * 4, 5 * 6 * 4 + 1, 5 * 6 * 4 + 63])
def test_what_a_killed_process_left_half_written_is_computed_again(file: Path, lost: int):
    filled(file, 3, 5)
    with file.open("r+b") as handle:
        handle.truncate(file.stat().st_size - lost)
    kept = StateFile(file, MARK)
    assert b"3" in kept
    assert b"5" not in kept
    kept.write(b"5", states(5))
    kept.close(keep=True)
    later = StateFile(file, MARK)
    assert b"5" in later
    assert torch.equal(later.read(b"5"), states(5))


def test_damaged_states_are_computed_again(file: Path):
    filled(file, 3, 5)
    content = bytearray(file.read_bytes())
    content[64 + 64 + 8] ^= 1
    file.write_bytes(content)
    kept = StateFile(file, MARK)
    assert b"3" not in kept
    assert b"5" in kept
    kept.write(b"3", states(3))
    kept.close(keep=True)
    later = StateFile(file, MARK)
    assert b"3" in later
    assert torch.equal(later.read(b"3"), states(3))


@pytest.mark.parametrize("at", [64 + 16, 64 + 24], ids=["tokens", "kind"])
def test_a_damaged_head_ends_the_file_there(file: Path, at: int):
    filled(file, 3, 5)
    content = bytearray(file.read_bytes())
    content[at : at + 4] = b"\xff" * 4
    file.write_bytes(content)
    kept = StateFile(file, MARK)
    assert b"3" not in kept
    assert b"5" not in kept
    kept.close(keep=True)
    assert file.stat().st_size == 64


def test_a_process_that_was_given_up_for_dead_and_writes_on_spoils_nothing(file: Path):
    filled(file, 3)
    old = StateFile(file, MARK)
    old.write(b"5", states(5))
    new = StateFile(file, MARK)
    assert b"3" not in new
    new.write(b"3", states(3))
    old.write(b"7", states(7))
    assert torch.equal(old.read(b"5"), states(5))
    assert torch.equal(new.read(b"3"), states(3))
    new.close(keep=True)
    old.close(keep=True)
    later = StateFile(file, MARK)
    assert [text in later for text in (b"3", b"5", b"7")] == [True, False, False]


def test_the_file_may_be_gone_when_an_attempt_ends_whose_place_another_took(file: Path):
    old = StateFile(file, MARK)
    new = StateFile(file, MARK)
    old.close(keep=False)
    new.write(b"3", states(3))
    assert torch.equal(new.read(b"3"), states(3))
    new.close(keep=False)
    assert not file.exists()
