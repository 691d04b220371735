from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor, nn

from rl.lm import loading, packed_layers
from rl.lm.packed_layers import _LoraProduct, draw_mask, fused_adapters, replaced_forwards

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


def with_adapter(folder: Path, **options: object) -> PeftModel:
    base = loading.load_base(str(folder), "fp32")
    torch.manual_seed(0)
    return get_peft_model(base, LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False, **options))


def logits_and_gradients(model: PeftModel) -> list[Tensor]:
    model.zero_grad()
    logits = model(input_ids=IDS).logits
    logits.float().log_softmax(-1)[..., 5].sum().backward()
    return [logits.detach(), *(weight.grad.clone() for weight in model.parameters() if weight.grad is not None)]


def assert_alike(ours: list[Tensor], theirs: list[Tensor], near: float = 1e-5) -> None:
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, atol=near * float(other.abs().max()), rtol=0)


@pytest.mark.parametrize("family", ["llama", "qwen2-tied", "gemma2"])
@pytest.mark.parametrize("options", [{}, {"use_rslora": True}], ids=["plain", "rslora"])
def test_outputs_and_gradients_are_those_of_peft(family: str, options: dict[str, object], tiny_model: Build):
    model = with_adapter(tiny_model(family), **options)
    theirs = logits_and_gradients(model)
    with fused_adapters(model) as fused:
        ours = logits_and_gradients(model)
    assert fused
    assert_alike(ours, theirs)
    assert all(torch.equal(*both) for both in zip(logits_and_gradients(model), theirs, strict=True))


def test_under_autocast_they_are_as_near_as_bfloat16_is(tiny_model: Build):
    model = with_adapter(tiny_model("llama"))
    exact = logits_and_gradients(model)
    with fused_adapters(model), torch.autocast("cpu", dtype=torch.bfloat16):
        ours = logits_and_gradients(model)
    assert ours[0].dtype == torch.bfloat16
    assert_alike([ours[0].float(), *ours[1:]], exact, near=0.1)


def test_an_adapter_that_is_off_and_another_one_are_used_as_ever(tiny_model: Build):
    model = with_adapter(tiny_model("llama"))
    model.add_adapter("ref", LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False))

    def outputs() -> list[Tensor]:
        with torch.no_grad():
            of_default = model(input_ids=IDS).logits
            with model.disable_adapter():
                of_base = model(input_ids=IDS).logits
            model.set_adapter("ref")
            of_ref = model(input_ids=IDS).logits
            model.base_model.set_adapter(["default", "ref"])
            of_both = model(input_ids=IDS).logits
            model.set_adapter("default")
        return [of_default, of_base, of_ref, of_both]

    theirs = outputs()
    with fused_adapters(model):
        assert_alike(outputs(), theirs)


@pytest.mark.parametrize(("family", "options"), [("gpt2", {}), ("llama", {"use_dora": True})])
def test_what_is_not_plain_lora_is_computed_by_peft(family: str, options: dict[str, object], tiny_model: Build):
    model = with_adapter(tiny_model(family), **options)
    theirs = logits_and_gradients(model)
    with fused_adapters(model):
        assert all(torch.equal(*both) for both in zip(logits_and_gradients(model)[:1], theirs[:1], strict=True))


def test_dropout_is_as_strong_as_asked_and_the_gradient_is_of_what_was_kept():
    torch.manual_seed(0)
    mask, kept = draw_mask(torch.ones(999, 101), 0.05)
    assert kept == pytest.approx(0.95, abs=1e-5)
    assert float(mask.mean()) == pytest.approx(kept, abs=0.003)
    assert all(abs(float(mask.view(-1)[part::4].mean()) - kept) < 0.005 for part in range(4))
    x, weight = torch.randn(5, 6, dtype=torch.float64), torch.randn(4, 6, dtype=torch.float64)
    first, second = torch.randn(2, 6, dtype=torch.float64), torch.randn(4, 2, dtype=torch.float64)

    def product(x: Tensor, first: Tensor, second: Tensor) -> Tensor:
        torch.manual_seed(1)  # the same mask each time
        return _LoraProduct.apply(x, weight, first, second, 2.0, 0.4)

    assert torch.autograd.gradcheck(product, [value.requires_grad_() for value in (x, first, second)])


def test_dropout_is_off_while_the_model_answers(tiny_model: Build):
    model = with_adapter(tiny_model("llama"), lora_dropout=0.5)
    with fused_adapters(model):
        assert not torch.equal(model.train()(input_ids=IDS).logits, model(input_ids=IDS).logits)
        assert torch.equal(model.eval()(input_ids=IDS).logits, model(input_ids=IDS).logits)


def double(x: Tensor) -> Tensor:
    return 2 * x


def triple(x: Tensor) -> Tensor:
    return 3 * x


def test_the_forward_of_the_class_and_one_that_was_put_in_its_place_come_back():
    plain, patched = nn.Identity(), nn.Identity()
    patched.forward = double
    one = torch.ones(1)
    with replaced_forwards({plain: triple, patched: triple}):
        assert (plain(one), patched(one)) == (3, 3)
    assert (plain(one), patched(one)) == (1, 2)
    assert "forward" not in vars(plain)


def test_they_come_back_after_an_exception_and_in_their_order_from_blocks_within_blocks():
    module, one = nn.Identity(), torch.ones(1)
    with replaced_forwards({module: double}):
        with pytest.raises(KeyError), replaced_forwards({module: triple}):
            raise KeyError
        assert module(one) == 2
    assert module(one) == 1
