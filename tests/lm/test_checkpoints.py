import json
import struct
from pathlib import Path

import pytest

from rl.lm import checkpoints

FILES = (
    "adapter_config.json",
    "adapter_model.safetensors",
    "optimizer.pt",
    "scheduler.pt",
    "rng_state.pth",
    "trainer_state.json",
)


def safetensors(values: bytes = b"\0" * 8) -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "__metadata__": {}}).encode()
    return struct.pack("<Q", len(header)) + header + values


def checkpoint(folder: Path, step: int) -> Path:
    path = folder / f"checkpoint-{step}"
    path.mkdir()
    for name in FILES:
        (path / name).write_bytes(b"{}")
    (path / "adapter_model.safetensors").write_bytes(safetensors())
    (path / "trainer_state.json").write_text(json.dumps({"global_step": step, "log_history": []}))
    return path


def test_the_newest_is_the_one_with_the_highest_step(tmp_path: Path):
    for step in (9, 100, 20):
        checkpoint(tmp_path, step)
    assert checkpoints.newest_complete(tmp_path) == tmp_path / "checkpoint-100"


@pytest.mark.parametrize("name", ["optimizer.bin", "optimizer_0/.metadata", "latest"])
def test_fsdp_and_deepspeed_keep_their_optimiser_elsewhere(tmp_path: Path, name: str):
    path = checkpoint(tmp_path, 10)
    (path / name).parent.mkdir(exist_ok=True)
    (path / "optimizer.pt").rename(path / name)
    assert checkpoints.is_complete(path)


def test_fsdp_may_keep_the_weights_in_parts(tmp_path: Path):
    path = checkpoint(tmp_path, 10)
    (path / "adapter_config.json").unlink()
    assert not checkpoints.is_complete(path)
    (path / "pytorch_model_fsdp_0").mkdir()
    (path / "pytorch_model_fsdp_0" / ".metadata").write_bytes(b"parts")
    assert checkpoints.is_complete(path)


def whole_model(folder: Path, step: int) -> Path:
    """Of a training of all weights, in two files."""
    path = checkpoint(folder, step)
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (path / name).unlink()
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (path / "config.json").write_text("{}")
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    for name in ("model-1.safetensors", "model-2.safetensors"):
        (path / name).write_bytes(safetensors())
    return path


def test_a_whole_model_is_complete_with_all_its_parts(tmp_path: Path):
    path = whole_model(tmp_path, 10)
    assert checkpoints.is_complete(path)
    (path / "model-2.safetensors").write_bytes(safetensors()[:-1])
    assert not checkpoints.is_complete(path)
    (path / "model-2.safetensors").unlink()
    assert not checkpoints.is_complete(path)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json"])
def test_a_whole_model_without_one_of_its_files_is_passed_over(tmp_path: Path, name: str):
    (whole_model(tmp_path, 10) / name).unlink()
    assert checkpoints.newest_complete(tmp_path) is None


def test_no_folder_has_no_checkpoint(tmp_path: Path):
    assert checkpoints.newest_complete(tmp_path / "nowhere") is None


@pytest.mark.parametrize("name", FILES)
def test_a_checkpoint_without_one_of_its_files_is_passed_over(tmp_path: Path, name: str):
    checkpoint(tmp_path, 10)
    (checkpoint(tmp_path, 20) / name).unlink()
    assert checkpoints.newest_complete(tmp_path) == tmp_path / "checkpoint-10"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("trainer_state.json", b'{"global_step": 20, "log_his'),
        ("trainer_state.json", b"[]"),
        ("trainer_state.json", b"\xff\xfe"),
        ("optimizer.pt", b""),
        ("adapter_model.safetensors", b"\1\2"),
        ("adapter_model.safetensors", safetensors(b"\0" * 7)),
        ("adapter_model.safetensors", struct.pack("<Q", 2**62) + b"{}"),
        ("adapter_model.safetensors", struct.pack("<Q", 2) + b"[]"),
    ],
)
def test_a_damaged_file_makes_a_checkpoint_incomplete(tmp_path: Path, name: str, content: bytes):
    path = checkpoint(tmp_path, 20)
    assert checkpoints.is_complete(path)
    (path / name).write_bytes(content)
    assert not checkpoints.is_complete(path)


def test_incomplete_checkpoints_are_removed_and_nothing_else(tmp_path: Path):
    (checkpoint(tmp_path, 20) / "optimizer.pt").unlink()
    kept = [checkpoint(tmp_path, 10), tmp_path / "adapter", tmp_path / "checkpoint-notes"]
    for path in kept[1:]:
        path.mkdir()
    checkpoints.remove_incomplete(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(kept)


def test_only_the_newest_are_kept(tmp_path: Path):
    for step in (2, 4, 10, 8):
        checkpoint(tmp_path, step)
    checkpoints.remove_old(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-10", "checkpoint-8"]
