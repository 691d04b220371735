"""The same weights have the same fingerprint whatever is around them; whatever changes a number changes it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, PreTrainedModel
from trl.trainer.utils import add_fused_lm_head

from rl.base.records import silent
from rl.lm.fingerprint import fingerprint
from rl.lm.token_tree.sharing import shared_tokens

pytestmark = pytest.mark.learn


@pytest.fixture
def base(tiny_base: Path) -> PreTrainedModel:
    model = AutoModelForCausalLM.from_pretrained(tiny_base, dtype=torch.float32).eval()
    add_fused_lm_head(model)
    return model


def adapted(model: PreTrainedModel, name: str = "default", seed: int = 0) -> PeftModel:
    torch.manual_seed(seed)
    lora = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)
    return get_peft_model(model, lora, adapter_name=name)


def test_an_adapter_that_is_turned_off_or_taken_out_leaves_the_base_models(base: PreTrainedModel):
    alone = fingerprint(base, None)
    model = adapted(base)
    assert fingerprint(model, None) != alone
    with model.disable_adapter():
        assert fingerprint(model, None) == alone
    assert fingerprint(model.unload(), None) == alone


def test_two_adapters_of_a_model_are_two(base: PreTrainedModel):
    model = adapted(base, "first")
    model.add_adapter("second", model.peft_config["first"])
    first = fingerprint(model, None)
    model.set_adapter("second")
    assert fingerprint(model, None) != first
    model.set_adapter("first")
    assert fingerprint(model, None) == first


def test_one_weight_of_an_adapter_is_another_adapter(base: PreTrainedModel):
    model = adapted(base)
    before = fingerprint(model, None)
    with torch.no_grad():
        next(weight for name, weight in model.named_parameters() if "lora_B" in name).view(-1)[0] += 1e-6
    assert fingerprint(model, None) != before


def test_one_weight_of_the_base_model_is_another_model(base: PreTrainedModel):
    before = fingerprint(base, None)
    with torch.no_grad():
        base.get_input_embeddings().weight.view(-1)[-1] += 1e-6
    assert fingerprint(base, None) != before


def test_precision_configuration_and_the_tree_count(base: PreTrainedModel):
    marks = {fingerprint(base, None), fingerprint(base, torch.bfloat16)}
    with shared_tokens(base, silent):
        marks.add(fingerprint(base, None))
    base.config.rms_norm_eps *= 2
    marks.add(fingerprint(base, None))
    marks.add(fingerprint(base.to(torch.bfloat16), None))
    assert len(marks) == 5


def test_where_the_files_lie_does_not_count(base: PreTrainedModel):
    before = fingerprint(base, None)
    base.config._name_or_path, base.config.use_cache = "elsewhere", not base.config.use_cache
    assert fingerprint(base, None) == before
