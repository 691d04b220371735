"""MiniMind's folders are loaded wherever a base model is."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from rl.base.errors import ExportFailed, TrainingFailed, UsageError
from rl.export.hf.loading import load_merged
from rl.lm import loading
from rl.lm.model_path import check_model_path
from rl.runs.data_check import context_of
from rl.runs.dry_run import model_shape
from rl.training.reward_scoring import load_scoring_base
from tests.training.minimind_reference import CONFIG, logits, random_weights

pytestmark = pytest.mark.learn


GENERATIONS = {"MiniMind2": (False, "llama"), "MiniMind-3": (True, "qwen3")}


@pytest.fixture(params=GENERATIONS)
def generation(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def base(generation: str, tiny_base: Path, tmp_path: Path) -> Path:
    return build(tiny_base, tmp_path / "minimind", normalised=GENERATIONS[generation][0])


def build(tiny_base: Path, folder: Path, normalised: bool = False, **changed: Any) -> Path:
    """With the tiny model's tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_base)
    tokenizer.save_pretrained(folder)
    save_file(random_weights(len(tokenizer), normalised), folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps({**CONFIG, "vocab_size": len(tokenizer), **changed}))
    return folder


def differences(model: Any, weights: dict[str, Any]) -> float:
    ids = torch.tensor([5, 300, 7, 7, 42, 511, 3, 11])
    with torch.no_grad():
        return float((model.eval()(input_ids=ids[None]).logits[0].float().cpu() - logits(weights, ids)).abs().max())


def test_it_computes_what_minimind_computes(base: Path, generation: str):
    model = loading.load_base(str(base), "fp32")
    assert model.config.model_type == GENERATIONS[generation][1]
    assert differences(model, load_file(base / "model.safetensors")) < 1e-5


def test_its_tokenizer_and_its_context_are_known(base: Path):
    assert loading.load_tokenizer(str(base)).chat_template
    assert loading.context_length(loading.read_config(str(base), TrainingFailed)) == context_of(base) == 128
    shape = model_shape(base)
    assert shape is not None
    assert (shape.layers, shape.hidden_size) == (2, 32)


def test_what_is_saved_from_it_is_loaded_again(base: Path, tmp_path: Path):
    loading.load_base(str(base), "fp32").save_pretrained(tmp_path / "whole")
    loading.load_tokenizer(str(base)).save_pretrained(tmp_path / "whole")
    assert differences(loading.load_base(str(tmp_path / "whole"), "fp32"), load_file(base / "model.safetensors")) < 1e-5


def test_an_adapter_of_it_is_trained_saved_and_merged(base: Path, tmp_path: Path):
    torch.manual_seed(1)
    model = loading.load_base(str(base), "fp32")
    adapted = get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj", "down_proj"], init_lora_weights=False))
    ids = torch.tensor([[5, 300, 7]])
    with torch.no_grad():
        expected = adapted.eval()(input_ids=ids).logits
    adapted.save_pretrained(tmp_path / "adapter")
    merged = load_merged(str(base), tmp_path / "adapter")
    with torch.no_grad():
        torch.testing.assert_close(merged.eval()(input_ids=ids).logits, expected.cpu(), atol=1e-4, rtol=1e-4)


def test_it_can_score_answers(base: Path):
    assert load_scoring_base(str(base), "fp32").config.num_labels == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"use_moe": True}, "is a MiniMind with experts"),
        ({"inference_rope_scaling": True}, "set inference_rope_scaling to false"),
        ({"n_layers": 8, "dim": 512}, "a MiniMind of before April 2025"),
        ({"num_key_value_heads": None}, r"config\.json has no num_key_value_heads"),
        ({"rope_theta": None}, r"config\.json has no rope_theta"),
    ],
)
def test_a_variant_that_is_neither_is_refused_by_its_name(tiny_base: Path, tmp_path: Path, changed: dict, message: str):
    folder = build(tiny_base, tmp_path / "minimind", **changed)
    for failure in (TrainingFailed, ExportFailed):
        with pytest.raises(UsageError, match=message):
            loading.read_config(str(folder), failure)
    with pytest.raises(UsageError, match=message):
        loading.load_base(str(folder), "fp32")


@pytest.mark.parametrize("theta", [{"rope_theta": 1000000.0}, {"rope_parameters": {"rope_theta": 1000000.0}}])
def test_the_rotary_base_is_found_where_any_version_of_transformers_writes_it(
    tiny_base: Path, tmp_path: Path, theta: dict
):
    folder = build(tiny_base, tmp_path / "minimind", **{"rope_theta": None, **theta})
    assert loading.read_config(str(folder), TrainingFailed).rope_parameters["rope_theta"] == 1000000.0


@pytest.mark.parametrize("name", ["pytorch_model.bin", "full_sft_512.pth"])
def test_a_pickle_is_refused_with_the_line_that_converts_it(tiny_base: Path, tmp_path: Path, monkeypatch, name: str):
    folder = build(tiny_base, tmp_path / "minimind")
    weights = load_file(folder / "model.safetensors")
    torch.save({**weights, "lm_head.weight": weights["model.embed_tokens.weight"]}, folder / name)
    (folder / "model.safetensors").unlink()
    with pytest.raises(UsageError, match="a pickle can run code") as refused:
        loading.load_base(str(folder), "fp32")
    monkeypatch.chdir(folder)
    exec(re.search(r'python -c "(.+)"', str(refused.value))[1])
    assert differences(loading.load_base(str(folder), "fp32"), weights) < 1e-5


def test_a_pickle_alone_is_no_base_model(tmp_path: Path):
    (tmp_path / "full_sft_512.pth").write_bytes(b"")
    with pytest.raises(UsageError, match=r"is a file; .*convert the \.pth files"):
        check_model_path(str(tmp_path / "full_sft_512.pth"))
