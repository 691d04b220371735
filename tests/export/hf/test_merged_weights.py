from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from rl.base.errors import ExportFailed
from rl.base.export_records import ExportJob
from rl.base.records import silent
from rl.export.hf import merge
from rl.export.hf.base_weights import BaseWeights
from rl.export.hf.loading import load_config, load_merged
from rl.export.hf.merge import MergedWeights
from tests.export.tiny_models import build_adapter

pytestmark = pytest.mark.learn

Build = Callable[[str], Path]


def opened(base: Path, adapter: Path | None) -> MergedWeights:
    return MergedWeights(BaseWeights(str(base), load_config(str(base))), adapter)


def merged_by_peft(base: Path, adapter: Path | None, directory: Path) -> dict[str, torch.Tensor]:
    load_merged(str(base), adapter).save_pretrained(directory)
    return load_file(directory / "model.safetensors")


def in_bfloat16(base: Path, directory: Path) -> Path:
    AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16).save_pretrained(directory)
    AutoTokenizer.from_pretrained(base).save_pretrained(directory)
    return directory


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "patterns": {
        "alpha_pattern": {"o_proj": 32, "mlp.c_proj": 5, r"layers\.1\..*up_proj": 3},
        "rank_pattern": {"q_proj": 2, "c_attn": 3},
    },
    "rslora": {"use_rslora": True, "rank_pattern": {"q_proj": 2, "c_attn": 3}},
    "fan_in_fan_out": {"fan_in_fan_out": True},
    "gaussian": {"init_lora_weights": "gaussian"},
}


@pytest.mark.parametrize("family", ["qwen2-tied", "gpt2"])
@pytest.mark.parametrize("option", OPTIONS)
def test_every_weight_is_the_one_that_peft_merges(family: str, option: str, tiny_model: Build, tmp_path: Path):
    base = tiny_model(family)
    adapter = build_adapter(tmp_path / "adapter", base, **OPTIONS[option])
    weights = opened(base, adapter)
    expected = merged_by_peft(base, adapter, tmp_path / "peft")
    plain = load_file(base / "model.safetensors")
    assert not weights.obstacle
    assert weights.shapes == {name: tuple(values.shape) for name, values in expected.items()}
    for name, values in expected.items():
        assert (weights.tensor(name) - values).abs().max() < 1e-6
    assert sum(not torch.equal(plain[name], values) for name, values in expected.items()) == len(
        weights.adapter.updates
    )


@pytest.mark.parametrize("adapter_dtype", [torch.float32, torch.bfloat16])
def test_a_bfloat16_base_is_rounded_once_after_the_sum_bit_for_bit_as_peft_does(
    adapter_dtype: torch.dtype, tiny_model: Build, tmp_path: Path
):
    base = in_bfloat16(tiny_model("llama"), tmp_path / "half")
    adapter = build_adapter(tmp_path / "adapter", base)
    stored = load_file(adapter / "adapter_model.safetensors")
    save_file(
        {name: values.to(adapter_dtype) for name, values in stored.items()}, adapter / "adapter_model.safetensors"
    )
    weights = opened(base, adapter)
    for name, values in merged_by_peft(base, adapter, tmp_path / "peft").items():
        assert torch.equal(weights.tensor(name), values)


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3"])
def test_the_files_are_those_that_transformers_writes(
    family: str, tiny_model: Build, tiny_adapter: Build, tmp_path: Path
):
    base, adapter = tiny_model(family), tiny_adapter(family)
    job = ExportJob(str(base), adapter, tmp_path, "tiny")
    made = merge.export(job, silent).path
    merged_by_peft(base, adapter, tmp_path / "peft")
    ours, theirs = (load_file(directory / "model.safetensors") for directory in (made, tmp_path / "peft"))
    assert ours.keys() == theirs.keys()
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-6, rtol=0) for name in theirs)
    for name in ("config.json", "generation_config.json"):
        assert json.loads((made / name).read_text()) == json.loads((tmp_path / "peft" / name).read_text())


def told(base: Path, adapter: Path | None, output: Path) -> list[str]:
    said: list[str] = []
    merge.export(
        ExportJob(str(base), adapter, output, "tiny"),
        lambda event, values: said.append(values["text"]) if event == "log" else None,
    )
    return said


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"use_dora": True}, "use_dora is True"),
        ({"modules_to_save": ["lm_head"], "target_modules": ["q_proj"]}, "modules_to_save is ['lm_head']"),
        ({"target_modules": ["q_proj", "embed_tokens"]}, "it trains base_model.model.model.embed_tokens"),
        ({"bias": "lora_only"}, "bias is 'lora_only'"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights is 'pissa'"),
    ],
)
def test_what_is_not_plain_is_merged_by_peft_and_the_log_says_why(
    options: dict[str, Any], why: str, tiny_model: Build, tmp_path: Path
):
    base = tiny_model("qwen2-untied")
    adapter = build_adapter(tmp_path / "adapter", base, **options)
    said = told(base, adapter, tmp_path)
    assert [why in text and text.startswith("merged in memory") for text in said] == [True]
    expected = merged_by_peft(base, adapter, tmp_path / "peft")
    made = load_file(tmp_path / "merged" / "model.safetensors")
    assert made.keys() == expected.keys()
    assert all(torch.equal(made[name], expected[name]) for name in expected)


def change(base: Path, directory: Path, weights: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Path:
    shutil.copytree(base, directory)
    save_file(weights(load_file(base / "model.safetensors")), directory / "model.safetensors", {"format": "pt"})
    return directory


def test_files_without_the_models_prefix_are_read_too(tiny_model: Build, tiny_adapter: Build, tmp_path: Path):
    def bare(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        mask = {"h.0.attn.bias": torch.ones(1, 1, 4, 4)}
        return {name.removeprefix("transformer."): values for name, values in weights.items()} | mask

    base = change(tiny_model("gpt2"), tmp_path / "bare", bare)
    assert told(base, tiny_adapter("gpt2"), tmp_path) == []
    expected = merged_by_peft(tiny_model("gpt2"), tiny_adapter("gpt2"), tmp_path / "peft")
    made = load_file(tmp_path / "merged" / "model.safetensors")
    assert all(torch.allclose(made[name], expected[name], atol=1e-6, rtol=0) for name in expected)


def test_a_tied_matrix_that_is_stored_twice_is_written_once(tiny_model: Build, tmp_path: Path):
    def twice(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return weights | {"lm_head.weight": weights["model.embed_tokens.weight"].clone()}

    assert "lm_head.weight" not in opened(change(tiny_model("qwen2-tied"), tmp_path / "twice", twice), None).shapes


@pytest.mark.parametrize(
    ("weights", "why"),
    [
        (lambda old: old | {"lm_head.weight": old["model.embed_tokens.weight"] + 1}, "are said to be one, and are not"),
        (
            lambda old: {name.replace("up_proj", "wide"): values for name, values in old.items()},
            r"other weights than transformers expects \(model.layers.0.mlp.wide",
        ),
    ],
)
def test_a_base_of_another_form_is_left_to_transformers(weights: Any, why: str, tiny_model: Build, tmp_path: Path):
    assert re.search(why, opened(change(tiny_model("qwen2-tied"), tmp_path / "other", weights), None).obstacle)


def test_a_quantised_base_is_left_to_transformers(tiny_model: Build):
    config = load_config(str(tiny_model("llama")))
    config.quantization_config = {"quant_method": "bitsandbytes"}
    assert BaseWeights(str(tiny_model("llama")), config).obstacle == "the base model is stored quantised"


def without_one(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: values for name, values in weights.items() if "layers.1.mlp.up_proj" not in name}


def too_narrow(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return weights | {"model.layers.0.mlp.up_proj.weight": torch.zeros(4, 4)}


def not_a_number(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return weights | {"model.norm.weight": torch.full_like(weights["model.norm.weight"], float("nan"))}


@pytest.mark.parametrize(
    ("weights", "what"),
    [
        (without_one, "is not whole: it lacks model.layers.1.mlp.up_proj.weight"),
        (too_narrow, r"has the shape \[4, 4\], but its configuration says \[512, 256\]"),
        (not_a_number, "the weight model.norm.weight holds NaN or infinity"),
    ],
)
def test_a_damaged_base_is_told_in_one_line_and_leaves_nothing(
    weights: Any, what: str, tiny_model: Build, tmp_path: Path
):
    base = change(tiny_model("llama"), tmp_path / "broken", weights)
    with pytest.raises(ExportFailed, match=what) as caught:
        merge.export(ExportJob(str(base), None, tmp_path / "out", "tiny"), silent)
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "out").iterdir()) == []


def test_an_update_that_overflows_is_refused(tiny_model: Build, tiny_adapter: Build, tmp_path: Path):
    adapter = shutil.copytree(tiny_adapter("llama"), tmp_path / "adapter")
    weights = load_file(adapter / "adapter_model.safetensors")
    save_file({name: values * 1e25 for name, values in weights.items()}, adapter / "adapter_model.safetensors")
    with pytest.raises(ExportFailed, match="with its update holds NaN or infinity"):
        merge.export(ExportJob(str(tiny_model("llama")), adapter, tmp_path / "out", "tiny"), silent)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_model_of_the_hub_is_read_from_its_cache(tiny_model: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    repository = tmp_path / "models--owner--name"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("a" * 40)
    shutil.copytree(tiny_model("gpt2"), repository / "snapshots" / ("a" * 40))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    base = BaseWeights("owner/name", load_config(str(tiny_model("gpt2"))))
    assert torch.equal(
        base.tensor("transformer.ln_f.bias"), opened(tiny_model("gpt2"), None).tensor("transformer.ln_f.bias")
    )
