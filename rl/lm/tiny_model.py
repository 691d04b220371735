"""The tiny embedded base model: a two-layer Qwen2 with random weights, so that the whole loop runs anywhere in seconds.

Nothing is downloaded. The vocabulary is learned from the demo's texts and the weights come from NumPy's PCG64 stream,
whose values do not depend on the processor, so every machine builds the same model, bit for bit. It knows nothing: what
a version trained on it does better, it learned from the ratings."""

from pathlib import Path

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from rl.base.files import staged_directory
from rl.base.records import Report
from rl.demo import phrases
from rl.lm.loading import quiet
from rl.lm.text_splitting import REGEXES

SEED = 20_26
VOCABULARY = 2048
"""Enough for every word of the demo to be one token."""
WIDTH = 256
"""Width of the residual stream, half that of feed-forward layers: whole blocks at every GGUF quantisation level."""

_END_OF_TEXT, _START, _END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
_CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def build(target_dir: Path, report: Report) -> Path:
    """Writes the model to ``target_dir``, which appears whole or not at all; returns it."""
    quiet()
    target_dir.parent.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer()
    model = _model(tokenizer)
    with staged_directory(target_dir) as unfinished:
        model.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
    size = f"{model.num_parameters():,} parameters, {len(tokenizer)} tokens"
    report("log", {"text": f"built the tiny base model: {size}"})
    return target_dir


def byte_pairs() -> Tokenizer:
    """Qwen2's way, without a vocabulary. Whatever a folder says, transformers reads the tokenizer of a Qwen2 model so."""
    bpe = Tokenizer(models.BPE())
    bpe.normalizer = normalizers.NFC()
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(REGEXES["qwen2"]), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    return bpe


def _tokenizer() -> PreTrainedTokenizerFast:
    bpe = byte_pairs()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[_END_OF_TEXT, _START, _END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    # each phrase of the demo as it begins a text and as it goes on after a space: every word becomes one token
    texts = [text for phrase in phrases.everything() for text in (phrase, f" {phrase}")]
    bpe.train_from_iterator([*texts, "system user assistant"], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=_END,
        pad_token=_END_OF_TEXT,
        chat_template=_CHAT_TEMPLATE,
        model_max_length=2048,
    )


@torch.no_grad()
def _model(tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    model = Qwen2ForCausalLM(config)
    random = np.random.default_rng(SEED)
    # weight matrices from N(0, 0.02), as Qwen2's own initialisation; norms stay 1 and biases 0
    for name, parameter in sorted(model.named_parameters()):
        if parameter.dim() == 2:
            values = 0.02 * random.standard_normal(tuple(parameter.shape))
            parameter.copy_(torch.from_numpy(values.astype(np.float32)))
        else:
            parameter.fill_(1.0 if name.endswith("norm.weight") else 0.0)
    return model
