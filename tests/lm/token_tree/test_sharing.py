"""The tree against the plain pass, in every family of models and with TRL's own fused head."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor
from transformers import AttentionInterface, AutoModelForCausalLM, PreTrainedModel
from trl.trainer.utils import FusedCausalLMOutput, add_fused_lm_head

from rl.base.records import silent
from rl.lm.log_probs import use_compact_head
from rl.lm.packed_layers import fused_adapters
from rl.lm.token_tree import sharing
from rl.lm.token_tree.head import kept_gradients
from rl.lm.token_tree.sharing import shared_tokens, shares_tokens
from rl.lm.trunk import kept_trunk
from tests.lm.test_trunk import FAMILIES

pytestmark = pytest.mark.learn

Build = Callable[[str], Path]


def load(folder: Path) -> PreTrainedModel:
    use_compact_head()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    add_fused_lm_head(model, temperature=0.7, outputs=("log_probs", "entropy", "is_top1"))
    return model


def group(left: int = 0) -> dict[str, Tensor]:
    """Five texts: two of one prompt, one that parts from it early, an equal one, another. ``left``: padding before each."""
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(10, 200, (5, 24), generator=generator)
    ids[1, :16], ids[2, :5], ids[3] = ids[0, :16], ids[0, :5], ids[0]
    lengths = torch.tensor([24, 20, 22, 24, 9])
    mask = (torch.arange(24) < lengths[:, None]).long()
    labels = ids.masked_fill((mask == 0) | (torch.arange(24) < 6), -100)
    padding = torch.zeros(5, left, dtype=torch.long)
    return {
        "input_ids": torch.cat([padding, ids * mask], dim=1),
        "attention_mask": torch.cat([padding, mask], dim=1),
        "labels": torch.cat([padding - 100, labels], dim=1),
    }


def score(model: torch.nn.Module, inputs: dict[str, Tensor], **named: Any) -> FusedCausalLMOutput:
    output: FusedCausalLMOutput = model(**inputs, **named, use_cache=False, fused_lm_head=True)
    return output


def tokens_read(model: PreTrainedModel) -> list[int]:
    """Filled at each pass."""
    read: list[int] = []
    model.base_model.register_forward_pre_hook(
        lambda module, arguments, named: read.append(named["input_ids"].numel()), with_kwargs=True
    )
    return read


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_entropies_and_gradients_are_those_of_the_plain_pass(family: str, tiny_model: Build):
    model, inputs = load(tiny_model(family)), group()
    weights = torch.arange(1.0, 6.0)

    def run() -> tuple[FusedCausalLMOutput, list[Tensor]]:
        model.zero_grad()
        output = score(model, inputs)
        (output.log_probs.sum(dim=1) * weights).sum().backward()
        return output, [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]

    plain, of_plain = run()
    read = tokens_read(model)
    with shared_tokens(model, silent) as used:
        shared, of_shared = run()
    assert used
    assert read[-1] < inputs["attention_mask"].sum() - 20
    for name in ("loss", "log_probs", "entropy", "is_top1", "label_mask"):
        torch.testing.assert_close(shared[name], plain[name], atol=1e-5, rtol=1e-5)
    for ours, theirs in zip(of_shared, of_plain, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4 * float(theirs.abs().max()), rtol=0)


@pytest.mark.slow
def test_with_smollm2_all_that_makes_training_fast_gives_the_scores_and_gradients_of_the_plain_pass(smollm2_base: Path):
    base, inputs = load(smollm2_base), group()
    lora = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
    model = get_peft_model(base, lora)

    def run() -> tuple[Tensor, list[Tensor]]:
        model.zero_grad()
        scores = score(model, inputs).log_probs
        scores.sum(dim=1).square().sum().backward()
        return scores, [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]

    plain, of_plain = run()
    with fused_adapters(model), kept_gradients(), shared_tokens(base, silent) as used:
        fast, of_fast = run()
    assert used
    torch.testing.assert_close(fast, plain, atol=1e-4, rtol=1e-5)
    for ours, theirs in zip(of_fast, of_plain, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4 * float(theirs.abs().max()), rtol=0)


def test_padding_on_the_left_is_not_computed_either(tiny_model: Build):
    model = load(tiny_model("qwen2-tied"))
    expected = score(model, group())
    with shared_tokens(model, silent):
        read = tokens_read(model)
        output = score(model, group(left=7))
        score(model, group())
    torch.testing.assert_close(output.log_probs[:, 7:], expected.log_probs, atol=1e-5, rtol=1e-5)
    assert output.log_probs.shape == (5, 30)
    assert not output.log_probs[:, :7].any()
    assert read[0] == read[1]


def test_an_adapter_below_which_the_trunk_is_kept_gives_the_same_gradients(tiny_model: Build, tmp_path: Path):
    def gradients(fast: bool) -> list[Tensor]:
        lora = LoraConfig(r=2, target_modules=["q_proj", "down_proj"], layers_to_transform=[1], init_lora_weights=False)
        base = load(tiny_model("llama"))
        torch.manual_seed(0)
        model = get_peft_model(base, lora)
        with kept_trunk(base, int(fast), tmp_path / "states"):
            if fast:
                with shared_tokens(base, silent):
                    assert shares_tokens(model)
                    score(model, {name: value[2:] for name, value in group().items()})  # some texts are known then
                    scores = [score(model, group()) for _ in range(2)]
            else:
                scores = [score(model, group()) for _ in range(2)]
        sum(output.log_probs.square().sum() for output in scores).backward()
        return [weight.grad for weight in model.parameters() if weight.grad is not None]

    for ours, theirs in zip(gradients(True), gradients(False), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4 * float(theirs.abs().max()), rtol=0)


@pytest.mark.parametrize(
    "change",
    [
        {"position_ids": torch.arange(24)[None]},
        {"attention_mask": torch.tensor([[1, 0, 1] + [1] * 21] * 5)},
        {"attention_mask": torch.ones(5, 1, 24, 24)},
    ],
    ids=["positions of one's own", "a gap", "a mask of one's own"],
)
def test_a_pass_that_is_not_of_plain_rows_is_computed_as_ever(tiny_model: Build, change: dict[str, Tensor]):
    model, inputs = load(tiny_model("llama")), {**group(), **change}
    expected = score(model, inputs).log_probs
    with shared_tokens(model, silent):
        assert torch.equal(score(model, inputs).log_probs, expected)
        assert "logits" in model(input_ids=group()["input_ids"])


def test_recomputed_activations_leave_the_pass_as_it_is(tiny_model: Build):
    model, inputs = load(tiny_model("llama")), group()
    with shared_tokens(model, silent):
        model.train()
        model.gradient_checkpointing_enable()
        read = tokens_read(model)
        score(model, inputs)
    assert read == [inputs["input_ids"].numel()]


def test_a_model_that_answers_otherwise_is_left_alone_and_the_log_says_why(
    tiny_model: Build, monkeypatch: pytest.MonkeyPatch
):
    model, lines = load(tiny_model("llama")), []
    forward = model.forward
    monkeypatch.setattr(sharing, "LARGEST_DIFFERENCE", {torch.float32: -1.0})
    with shared_tokens(model, lambda event, values: lines.append(values["text"])) as used:
        assert not used
        assert not shares_tokens(model)
        assert model.forward == forward
    assert len(lines) == 1
    assert "its states differ by" in lines[0]


def test_a_model_that_takes_no_tree_is_left_alone(tiny_model: Build, monkeypatch: pytest.MonkeyPatch):
    model, lines = load(tiny_model("llama")), []

    def refuse(*arguments: Any, **named: Any) -> None:
        raise ValueError("attention with sinks")

    monkeypatch.setitem(AttentionInterface._global_mapping, sharing.ATTENTION, refuse)
    before = model.config._attn_implementation
    with shared_tokens(model, lambda event, values: lines.append(values["text"])) as used:
        assert not used
    assert "attention with sinks" in lines[0]
    assert model.config._attn_implementation == before


def test_experts_are_left_to_the_plain_pass(tiny_model: Build):
    model, lines = load(tiny_model("llama")), []
    model.config.output_router_logits = True
    with shared_tokens(model, lambda event, values: lines.append(values["text"])) as used:
        assert not used
    assert "experts" in lines[0]


def test_under_autocast_it_is_as_near_as_bfloat16_is(tiny_model: Build):
    model, inputs = load(tiny_model("llama")), group()
    expected = score(model, inputs).log_probs
    with shared_tokens(model, silent), torch.autocast("cpu", dtype=torch.bfloat16):
        output = score(model, inputs).log_probs
    output.sum().backward()
    assert 0 < float((output - expected).abs().max()) < 0.2
