from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from huggingface_hub import save_torch_state_dict
from safetensors import safe_open
from safetensors.torch import load_file

from rl.export.hf.merge import write_shards

pytestmark = pytest.mark.learn

WEIGHTS = {"b": torch.randn(30, 5), "a": torch.randn(170), "c.weight": torch.randn(2, 3, 4), "empty": torch.zeros(0, 4)}
SHAPES = {name: tuple(values.shape) for name, values in WEIGHTS.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_library_reads_what_was_written(dtype: torch.dtype, tmp_path: Path):
    weights = {name: values.to(dtype) for name, values in WEIGHTS.items()}
    write_shards(tmp_path, SHAPES, dtype, weights.__getitem__, "4GB")
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]
    made = load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(made[name], values) for name, values in weights.items())
    with safe_open(tmp_path / "model.safetensors", framework="pt") as handle:
        assert handle.metadata() == {"format": "pt"}


def test_a_large_model_is_cut_as_the_hub_cuts_it(tmp_path: Path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    write_shards(ours, SHAPES, torch.float32, WEIGHTS.__getitem__, "1KB")
    save_torch_state_dict(WEIGHTS, theirs, max_shard_size="1KB")
    names = sorted(path.name for path in theirs.iterdir())
    assert sorted(path.name for path in ours.iterdir()) == names
    index = "model.safetensors.index.json"
    first, second = (json.loads((folder / index).read_text()) for folder in (ours, theirs))
    assert first["weight_map"] == second["weight_map"]
    assert first["metadata"] == {"total_size": second["metadata"]["total_size"], "total_parameters": 344}
    for name in set(names) - {index}:
        assert all(torch.equal(values, WEIGHTS[key]) for key, values in load_file(ours / name).items())


def test_a_tensor_of_another_shape_than_planned_is_never_written(tmp_path: Path):
    with pytest.raises(ValueError, match=r"a was planned as torch.float32 \[2\], not torch.float32 \[3\]"):
        write_shards(tmp_path, {"a": (2,)}, torch.float32, lambda name: torch.zeros(3), "4GB")
