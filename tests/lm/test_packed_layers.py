from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor

from rl.lm import loading, packed_layers
from rl.lm.lora_passes import fused_adapters

pytestmark = pytest.mark.learn

Build = Callable[[str], Path]
IDS = torch.arange(3, 27).view(2, 12)


def adapted(folder: Path, **options: object) -> PeftModel:
    base = loading.load_base(str(folder), "fp32")
    torch.manual_seed(0)
    return get_peft_model(base, LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False, **options)).eval()


def logits(model: torch.nn.Module) -> Tensor:
    with torch.no_grad():
        scores: Tensor = model(input_ids=IDS).logits
    return scores


def copies(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def assert_near(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-5 * float(theirs.abs().max()), rtol=0)


@pytest.mark.parametrize("family", ["llama", "qwen2-tied", "qwen3", "gpt2", "gemma3"])
def test_a_pass_gives_the_same_and_the_weights_stay_bit_for_bit(family: str, tiny_model: Build):
    model = adapted(tiny_model(family))
    plain, before = logits(model), copies(model)
    with packed_layers.packed_layers(model) as packed:
        assert_near(logits(model), plain)
    assert packed
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())
    assert torch.equal(logits(model), plain)


@pytest.mark.parametrize("options", [{"use_dora": True}, {"lora_bias": True}], ids=["dora", "bias"])
def test_adapters_that_cannot_be_added_are_computed_as_ever(options: dict[str, object], tiny_model: Build):
    model = adapted(tiny_model("llama"), **options)
    plain = logits(model)
    with packed_layers.packed_layers(model):
        assert_near(logits(model), plain)


def test_an_adapter_that_is_off_is_not_added(tiny_model: Build):
    model = adapted(tiny_model("llama"))
    with model.disable_adapter():
        plain = logits(model)
        with packed_layers.packed_layers(model):
            assert_near(logits(model), plain)


def test_of_two_adapters_the_one_in_use_is_added(tiny_model: Build):
    model = adapted(tiny_model("llama"))
    model.add_adapter("other", LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False))
    first = logits(model)
    model.set_adapter("other")
    other = logits(model)
    assert not torch.allclose(first, other)
    with packed_layers.packed_layers(model):
        assert_near(logits(model), other)


def test_a_model_that_turns_autocast_on_by_itself_computes_as_ever(tiny_model: Build):
    """As a trainer in bfloat16 makes it do, whose weights are in float32."""
    model = adapted(tiny_model("llama"))
    model.forward = torch.autocast("cpu", dtype=torch.bfloat16)(model.forward)
    plain = logits(model)
    with packed_layers.packed_layers(model) as packed:
        assert torch.equal(logits(model), plain)
    assert packed


def test_passes_that_were_fused_before_are_so_afterwards(tiny_model: Build):
    model = adapted(tiny_model("llama"))
    with fused_adapters(model):
        fused = logits(model)
        with packed_layers.packed_layers(model), packed_layers.packed_layers(model) as still:
            assert still
        assert torch.equal(logits(model), fused)


def test_gradients_are_those_of_the_plain_layers(tiny_model: Build):
    model = adapted(tiny_model("llama"))
    with packed_layers.packed_layers(model):
        model(input_ids=IDS).logits.sum().backward()
    assert all(weight.grad is not None for name, weight in model.named_parameters() if "lora_" in name)


def test_large_models_half_precision_and_autocast_are_left_alone(tiny_model: Build, monkeypatch: pytest.MonkeyPatch):
    model = loading.load_base(str(tiny_model("llama")), "fp32")
    with torch.autocast("cpu", dtype=torch.bfloat16), packed_layers.packed_layers(model) as packed:
        assert not packed
    with packed_layers.packed_layers(model.bfloat16()) as packed:
        assert not packed
    monkeypatch.setattr(packed_layers, "MOST_BYTES", 1)
    with packed_layers.packed_layers(model.float()) as packed:
        assert not packed
