"""Times the layers of a model on this machine: ``python -m rl.lm.timing FOLDER METHOD_MODULE PRECISION`` prints JSON.

A model of two such layers with random weights and a small vocabulary runs a few short texts, and its head is one matrix; the
best of some repeats counts, since whatever else runs here only makes it slower. A process of its own, so that whoever asks
does not load torch, and learns how long that takes.

Shapes: B texts of T tokens, H the width of the model, V its vocabulary."""

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, DynamicCache

from rl.base.errors import TrainingFailed
from rl.hardware.speed import TIMED_TOKENS, Speed
from rl.lm import loading
from rl.lm.chat.template import ChatTemplate
from rl.lm.resources import peak_memory

LAYERS, TEXTS, ANSWERS, REPEATS = 2, 2, 8, 4
_VOCABULARY, _MOST_HEAD = 256, 2**25
_PREDICTED = 64
"""Positions at which the head is timed."""


def time_model(folder: str, precision: str, start: float, runtime_bytes: int) -> Speed:
    """Raises UsageError, TrainingFailed and what the libraries raise for a model that they do not know."""
    loading.quiet()
    loading.leave_a_core_free()
    config = loading.read_config(folder, TrainingFailed).get_text_config()
    width, vocabulary = config.hidden_size, config.vocab_size
    dtype = torch.bfloat16 if loading.uses_bf16(precision) else torch.float32
    with torch.autocast(loading.device().type, dtype=dtype, enabled=dtype is torch.bfloat16):
        head, head_training = (_time_head(width, vocabulary, dtype, trains) for trains in (False, True))
        model = AutoModelForCausalLM.from_config(_cut(config)).to(loading.device(), dtype)
        layers = LAYERS * TEXTS * TIMED_TOKENS
        with torch.no_grad():
            forward = _best(partial(model.base_model, _ids(TEXTS, TIMED_TOKENS), use_cache=False)) / layers
            # one more token of each answer, after as many as lie before it on average
            cache = DynamicCache(config=model.config)
            model.base_model(_ids(ANSWERS, TIMED_TOKENS), past_key_values=cache, use_cache=True)
            longer = partial(model.base_model, _ids(ANSWERS, 1), past_key_values=cache, use_cache=True)
            generation = _best(longer) / (LAYERS * ANSWERS)
        step = _training_step(model)
        kept = _kept_bytes(step) / layers
        training = _best(step) / layers
    prompt, system = _template_tokens(folder)
    return Speed(
        forward=forward,
        training=training,
        generation=generation,
        head=head,
        head_training=head_training,
        start=start,
        kept_bytes=kept,
        runtime_bytes=runtime_bytes,
        prompt_tokens=prompt,
        system_tokens=system,
        measured=True,
    )


def _cut(config: Any) -> Any:
    """The configuration with LAYERS layers and a small vocabulary."""
    depth = config.num_hidden_layers
    for name, value in config.to_dict().items():
        if isinstance(value, list) and len(value) == depth:
            setattr(config, name, value[:LAYERS])
    config.num_hidden_layers, config.vocab_size = LAYERS, _VOCABULARY
    config.pad_token_id = config.bos_token_id = config.eos_token_id = None
    return config


def _best(work: Callable[[], object]) -> float:
    """Seconds. One thread is timed by the time that it ran, whatever else did."""
    clock = time.process_time if torch.get_num_threads() == 1 and not torch.cuda.is_available() else time.perf_counter
    times = []
    for _ in range(REPEATS):
        _finish()
        began = clock()
        work()
        _finish()
        times.append(clock() - began)
    return min(times)


def _finish() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _ids(texts: int, tokens: int) -> torch.Tensor:
    return torch.randint(_VOCABULARY, (texts, tokens), device=loading.device())  # (B, T)


def _training_step(model: Any) -> Callable[[], None]:
    peft = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, target_modules="all-linear"))
    ids = _ids(TEXTS, TIMED_TOKENS)

    def step() -> None:
        states = peft.base_model.model.base_model(ids, use_cache=False).last_hidden_state  # (B, T, H)
        states.float().sum().backward()

    return step


def _kept_bytes(step: Callable[[], None]) -> float:
    """Activations, each once; weights are there anyway."""
    kept: dict[int, int] = {}

    def keep(value: torch.Tensor) -> torch.Tensor:
        if not isinstance(value, torch.nn.Parameter) and value.dim() > 2:
            kept[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        return value

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        step()
    return sum(kept.values())


def _time_head(width: int, vocabulary: int, dtype: torch.dtype, trains: bool) -> float:
    """Seconds a position. Of a large vocabulary a part is timed. The fused head keeps no logits: a backward pass computes
    them again."""
    part = min(vocabulary, max(1, _MOST_HEAD // width))
    weights = torch.randn(part, width, device=loading.device(), dtype=dtype)
    states = torch.randn(_PREDICTED, width, device=loading.device(), dtype=dtype, requires_grad=trains)  # (T, H)

    def step() -> None:
        with torch.set_grad_enabled(trains):
            if trains:
                states @ weights.T
            log_probs = (states @ weights.T).float().log_softmax(-1)  # (T, V)
            if trains:
                log_probs[:, 0].sum().backward()

    return _best(step) / _PREDICTED * vocabulary / part


def _template_tokens(folder: str) -> tuple[int, int]:
    """In a chat with a question only, and in one with a system prompt too, where the template takes one."""
    tokenizer: Any = loading.load_tokenizer(folder)
    template, question = ChatTemplate(tokenizer), {"role": "user", "content": ""}
    chats = ([question], [{"role": "system", "content": ""}, question])
    texts = [template.render(chat, opening=True) for chat in chats]
    alone, both = (len(ids) + 1 for ids in tokenizer(texts, add_special_tokens=False)["input_ids"])  # and its end
    return alone, both


def main(folder: str, module: str, precision: str) -> None:
    import_module(module)
    start, runtime_bytes = time.process_time(), peak_memory()
    print(json.dumps(time_model(folder, precision, start, runtime_bytes).as_dict()))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
