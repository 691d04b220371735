import errno
import os
from pathlib import Path

import numpy as np
import pytest

from rl.base.errors import ExportFailed
from rl.export.staging import require_space, scratch_directory, staged_directory, staged_file
from tests.base.test_files import break_off, names


def test_a_file_appears_whole_and_for_its_owner_alone(tmp_path: Path):
    final = tmp_path / "new" / "model.gguf"
    with staged_file(final) as partial:
        partial.write_bytes(b"weights")
        partial.chmod(0o644)
        assert not final.exists()
    assert final.read_bytes() == b"weights"
    assert final.stat().st_mode & 0o777 == 0o600
    assert names(final.parent) == ["model.gguf"]


def test_a_failure_keeps_the_earlier_file_and_nothing_else(tmp_path: Path):
    final = tmp_path / "model.gguf"
    final.write_bytes(b"earlier")
    with pytest.raises(KeyError, match="a bug keeps its own type"):
        break_off(staged_file(final), KeyError("a bug keeps its own type"))
    assert final.read_bytes() == b"earlier"
    assert names(tmp_path) == ["model.gguf"]


def test_a_directory_replaces_the_earlier_one_and_its_files_are_private(tmp_path: Path):
    final = tmp_path / "merged"
    final.mkdir()
    (final / "old.bin").write_bytes(b"old")
    with staged_directory(final) as partial:
        (partial / "model.safetensors").write_bytes(b"new")
        (partial / "model.safetensors").chmod(0o644)
    assert names(final) == ["model.safetensors"]
    assert (final / "model.safetensors").stat().st_mode & 0o777 == 0o600
    assert names(tmp_path) == ["merged"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)),
        OSError("1048576 requested and 4096 written"),
        Exception("No space left on device (os error 28)"),
    ],
)
def test_every_library_s_full_disk_is_one_clear_failure(tmp_path: Path, error: Exception):
    with pytest.raises(ExportFailed, match="is full or a quota is reached"):
        break_off(staged_file(tmp_path / "model.gguf"), error)
    assert names(tmp_path) == []


def test_numpy_still_tells_of_a_full_disk_in_the_words_that_are_looked_for():
    with Path("/dev/full").open("wb", buffering=0) as full, pytest.raises(OSError, match="requested and"):
        np.zeros(1 << 16, dtype=np.float32).tofile(full)


def test_a_folder_that_cannot_be_made_is_a_clear_failure(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ExportFailed, match="cannot write the export to"), staged_file(tmp_path / "file" / "model.gguf"):
        pass


def test_a_directory_half_written_is_gone_after_a_failure(tmp_path: Path):
    for staged in (staged_directory(tmp_path / "merged"), scratch_directory(tmp_path, "merged")):
        with pytest.raises(ValueError, match="any failure"):
            break_off(staged, ValueError("any failure"))
        assert names(tmp_path) == []


def test_too_little_space_is_told_before_anything_is_written(tmp_path: Path):
    with pytest.raises(ExportFailed, match=r"not enough space in .*: the export needs 909494\.7 TiB, .* are free"):
        require_space(tmp_path, 10**18)
