import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from rl.base.errors import ExportFailed
from rl.export.gguf.weights import Checkpoint

pytestmark = pytest.mark.learn


def test_a_sharded_checkpoint_reads_as_one(tmp_path: Path):
    save_file({"a": torch.ones(2, 3, dtype=torch.bfloat16)}, tmp_path / "one.safetensors")
    save_file({"b": torch.zeros(4)}, tmp_path / "two.safetensors")
    index = {"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.shapes == {"a": (2, 3), "b": (4,)}
    assert checkpoint.read("a").dtype == np.float32
    assert checkpoint.read("a").sum() == 6


def test_an_index_that_points_elsewhere_is_refused(tmp_path: Path):
    index = {"weight_map": {"a": "../secret.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ExportFailed, match=r"names a file outside of its directory: \.\./secret"):
        Checkpoint(tmp_path)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_weight_that_is_no_number_is_refused_by_name(value: float, dtype: torch.dtype, tmp_path: Path):
    weight = torch.arange(99.0).view(9, 11).to(dtype)
    weight[4, 5] = value
    save_file({"model.norm.weight": weight}, tmp_path / "model.safetensors")
    with pytest.raises(ExportFailed, match="weight model.norm.weight holds NaN or infinity"):
        Checkpoint(tmp_path).read("model.norm.weight")


def test_a_tensor_without_values_is_no_damage(tmp_path: Path):
    save_file({"empty": torch.zeros(0, 4), "number": torch.tensor(3.0)}, tmp_path / "model.safetensors")
    assert (Checkpoint(tmp_path).read("empty").shape, Checkpoint(tmp_path).read("number")) == ((0, 4), 3.0)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"weight_map": ["a"]}'])
def test_a_damaged_index_is_told(content: str, tmp_path: Path):
    (tmp_path / "model.safetensors.index.json").write_text(content)
    with pytest.raises(ExportFailed, match=r"model.safetensors.index.json names no weight files: "):
        Checkpoint(tmp_path)


def test_a_missing_or_damaged_file_is_told(tmp_path: Path):
    with pytest.raises(ExportFailed, match="has no model.safetensors"):
        Checkpoint(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 32)
    with pytest.raises(ExportFailed, match=r"cannot read .*model.safetensors"):
        Checkpoint(tmp_path)
