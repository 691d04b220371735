"""Answers with prompts that are read together, against transformers' own generation of each alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model

from rl.lm import loading
from rl.lm.generating import likeliest, sample
from rl.lm.shared_prompts import RoomyLayer, read

pytestmark = pytest.mark.learn

Build = Callable[[str], Path]
MOST = 20
BEGINNING = list(range(3, 43))
PROMPTS = [BEGINNING + rest for rest in ([50, 51], [60], [50, 51], [50, 51], [70, 71, 72, 73, 74], [60])]


def adapted(folder: Path) -> Any:
    torch.manual_seed(0)
    base = loading.load_base(str(folder), "fp32")
    return get_peft_model(base, LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)).eval()


def alone(model: Any, tokenizer: Any, prompts: list[list[int]]) -> list[list[int]]:
    """By transformers' generation, one after the other and without padding."""
    how = {"max_new_tokens": MOST, "do_sample": False, "pad_token_id": tokenizer.pad_token_id}
    answers = {
        prompt: model.generate(input_ids=torch.tensor([prompt]), **how)[0, len(prompt) :].tolist()
        for prompt in set(map(tuple, prompts))
    }
    return [answers[tuple(prompt)] for prompt in prompts]


@pytest.mark.parametrize("family", ["llama", "qwen2-tied", "qwen3", "gpt2", "gemma3"])
def test_answers_are_token_for_token_those_of_transformers(family: str, tiny_model: Build):
    folder = tiny_model(family)
    model, tokenizer = adapted(folder), loading.load_tokenizer(str(folder))
    assert likeliest(model, tokenizer, PROMPTS, MOST) == alone(model, tokenizer, PROMPTS)


@pytest.mark.parametrize("prompts", [PROMPTS, [BEGINNING] * 4, [[3], [3], [4, 5]], [[3]] * 40])
def test_any_prompts_give_what_they_give_alone(prompts: list[list[int]], tiny_model: Build):
    folder = tiny_model("llama")
    model, tokenizer = adapted(folder), loading.load_tokenizer(str(folder))
    assert likeliest(model, tokenizer, prompts, MOST) == alone(model, tokenizer, prompts)


def test_what_prompts_share_is_read_once(tiny_model: Build):
    model = adapted(tiny_model("llama"))
    tokens: list[int] = []
    hook = model.get_base_model().base_model.register_forward_pre_hook(
        lambda module, arguments, named: tokens.append(named["input_ids"].numel()), with_kwargs=True
    )
    with torch.no_grad():
        _, _, cache = read(model, [BEGINNING] * 6, 0)
    hook.remove()
    assert tokens == [len(BEGINNING) - 1]
    assert cache is not None
    assert len(cache.layers[0].keys) == 6
    assert cache.get_seq_length() == len(BEGINNING) - 1


def test_a_model_with_windows_has_the_librarys_cache(tiny_model: Build):
    assert read(adapted(tiny_model("gemma3")), PROMPTS, 0)[2] is None


def test_samples_depend_on_the_seed_alone(tiny_model: Build):
    folder = tiny_model("llama")
    model, tokenizer = adapted(folder), loading.load_tokenizer(str(folder))

    def sampled(seed: int) -> list[list[int]]:
        torch.manual_seed(seed)
        return sample(model, tokenizer, PROMPTS, MOST, 1.0, 1.0)

    assert sampled(1) == sampled(1) != sampled(2)


def test_a_cache_with_room_holds_what_was_put_in():
    torch.manual_seed(0)
    layer, parts = RoomyLayer(), [torch.randn(3, 2, tokens, 4) for tokens in (5, 1, 1, 90, 1)]
    for count, part in enumerate(parts, start=1):
        keys, values = layer.update(part, -part)
        assert torch.equal(keys, torch.cat(parts[:count], dim=2))
        assert torch.equal(values, -keys)
    layer.batch_select_indices(torch.tensor([2, 0]))
    keys, _ = layer.update(parts[1][[2, 0]], parts[1][[2, 0]])
    assert torch.equal(keys, torch.cat([*parts, parts[1]], dim=2)[[2, 0]])
