"""Tiny models of every supported architecture, and adapters on them.

Every parameter is random, biases and norms too, and large enough that attention and positions decide the next token: a
tensor under a wrong name, or with rows in a wrong order, cannot pass by luck.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GemmaTokenizer,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_CORPUS = [
    "Which widget should show the temperature of pump 7? A trend chart shows it best, with 12.5 bar on the axis.",
    "The compressor's fan isn't turning: show an alarm list, a gauge and the last 1234 readings of the plant.",
    "def f(x):\n    return x ** 2\n\n\tnaïve café, Größe, привет, 你好 🙂",
] * 20
_QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPLITS = {"qwen2": _QWEN2_SPLIT, "llama-bpe": _QWEN2_SPLIT.replace(r"|\p{N}|", r"|\p{N}{1,3}|")}
_SIZES: dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 2048,
}
_LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def byte_level_tokenizer(split: str = "gpt-2", bos: bool = False) -> PreTrainedTokenizerFast:
    """``split`` is llama.cpp's name of the splitting rule."""
    bpe = Tokenizer(models.BPE())
    steps: list[Any] = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split in ("gpt-2", "smollm"))]
    if split == "smollm":
        steps.insert(0, pre_tokenizers.Digits(individual_digits=True))
    elif split in SPLITS:
        steps.insert(0, pre_tokenizers.Split(Regex(SPLITS[split]), "isolated"))
        bpe.normalizer = normalizers.NFC()
    bpe.pre_tokenizer = steps[0] if len(steps) == 1 else pre_tokenizers.Sequence(steps)
    bpe.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        _CORPUS,
        trainers.BpeTrainer(vocab_size=500, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    names = {"bos_token": "<|begin|>"} if bos else {}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>", **names
    )
    tokenizer.chat_template = "{{ bos_token }}" + CHATML if bos else CHATML
    return tokenizer


def sentencepiece_like_tokenizer() -> PreTrainedTokenizerFast:
    """As Llama 2 and Mistral: spaces become ▁, unknown characters fall back to bytes, BOS is added to plain text."""
    steps = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    learner = Tokenizer(models.BPE())
    learner.normalizer = steps
    learner.train_from_iterator(_CORPUS, trainers.BpeTrainer(vocab_size=400, show_progress=False))
    learned = json.loads(learner.to_str())["model"]
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{value:02X}>" for value in range(256))]
    pieces += sorted(learned["vocab"], key=learned["vocab"].get)
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    merges = [tuple(merge) for merge in learned["merges"]]
    bpe = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    bpe.normalizer = steps
    bpe.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    bpe.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


GEMMA_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
    "{{ m.content | trim }}<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)


def gemma_tokenizer() -> GemmaTokenizer:
    """As transformers saves Gemma's: no space in front, runs of spaces and of line ends are tokens of their own, which
    the vocabulary can merge as well."""
    steps = normalizers.Replace(" ", "▁")
    learner = Tokenizer(models.BPE())
    learner.normalizer = steps
    learner.train_from_iterator(_CORPUS, trainers.BpeTrainer(vocab_size=400, show_progress=False))
    learned = json.loads(learner.to_str())["model"]
    runs = [mark * count for mark in ("\n", "▁") for count in (2, 3, 4)]
    pieces = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>", "<end_of_turn>", "\n", *runs]
    pieces += [f"<0x{value:02X}>" for value in range(256)]
    pieces += [piece for piece in sorted(learned["vocab"], key=learned["vocab"].get) if piece not in pieces]
    merges = [(run[0] * half, run[0] * (len(run) - half)) for run in runs for half in range(1, len(run))]
    merges += [pair for pair in map(tuple, learned["merges"]) if pair not in merges]
    tokenizer = GemmaTokenizer(vocab={piece: number for number, piece in enumerate(pieces)}, merges=merges)
    tokenizer.add_tokens([AddedToken(run, normalized=False, special=False) for run in runs])
    tokenizer.add_tokens(["<start_of_turn>", "<end_of_turn>"], special_tokens=True)
    tokenizer.chat_template = GEMMA_TEMPLATE
    return tokenizer


def _qwen2(tied: bool) -> tuple[Any, PreTrainedTokenizerFast]:
    tokenizer = byte_level_tokenizer("qwen2")
    return Qwen2Config(**_SIZES, num_key_value_heads=2, tie_word_embeddings=tied), tokenizer


def _llama() -> tuple[Any, PreTrainedTokenizerFast]:
    config = LlamaConfig(**_SIZES, num_key_value_heads=1, rope_parameters=_LLAMA3_ROPE, tie_word_embeddings=False)
    return config, byte_level_tokenizer("llama-bpe", bos=True)


def _mistral() -> tuple[Any, PreTrainedTokenizerFast]:
    config = MistralConfig(**_SIZES, num_key_value_heads=2, head_dim=32, sliding_window=None)
    return config, sentencepiece_like_tokenizer()


def _qwen3() -> tuple[Any, PreTrainedTokenizerFast]:
    return Qwen3Config(**_SIZES, num_key_value_heads=2, head_dim=96), byte_level_tokenizer("smollm")


def _gpt2() -> tuple[Any, PreTrainedTokenizerFast]:
    config = GPT2Config(n_embd=256, n_layer=2, n_head=4, n_positions=512, n_inner=512)
    return config, byte_level_tokenizer("gpt-2")


_GEMMA: dict[str, Any] = {
    **_SIZES,
    "num_key_value_heads": 2,
    "head_dim": 96,
    "query_pre_attn_scalar": 96,
    "sliding_window": 8,
}
"""A window that the prompts of the tests are longer than."""


def _gemma2() -> tuple[Any, PreTrainedTokenizerFast]:
    config = Gemma2Config(**_GEMMA, attn_logit_softcapping=5.0, final_logit_softcapping=3.0)
    return config, gemma_tokenizer()


def _gemma3() -> tuple[Any, PreTrainedTokenizerFast]:
    rope = {
        "sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
        "full_attention": {"rope_type": "linear", "rope_theta": 20000.0, "factor": 4.0},
    }
    return Gemma3TextConfig(**{**_GEMMA, "num_hidden_layers": 7}, rope_parameters=rope), gemma_tokenizer()


FAMILIES: dict[str, Callable[[], tuple[Any, PreTrainedTokenizerFast]]] = {
    "qwen2-tied": lambda: _qwen2(tied=True),
    "qwen2-untied": lambda: _qwen2(tied=False),
    "llama": _llama,
    "mistral": _mistral,
    "qwen3": _qwen3,
    "gpt2": _gpt2,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
}


def build_model(directory: Path, config: Any, tokenizer: PreTrainedTokenizerFast) -> Path:
    """Writes the model with random weights; the embedding matrix has 12 rows more than the tokenizer has tokens."""
    config.vocab_size = len(tokenizer) + 12
    config.eos_token_id, config.bos_token_id = tokenizer.eos_token_id, tokenizer.bos_token_id
    config.pad_token_id = tokenizer.pad_token_id
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
        if "gemma" in config.model_type:
            _let_layers_speak(model)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def _let_layers_speak(model: Any) -> None:
    """Gemma's embeddings are scaled up by 16 here, and so loud that each token would only repeat itself."""
    model.model.embed_tokens.weight.mul_(0.1)
    model.model.norm.weight.add_(10.0)


def build_adapter(directory: Path, base: Path, seed: int = 11, **options: Any) -> Path:
    """An adapter on every linear layer (unless ``options`` say otherwise) with an effect that cannot be missed."""
    model = AutoModelForCausalLM.from_pretrained(base)
    chosen = {"r": 4, "lora_alpha": 8, "target_modules": "all-linear", "task_type": "CAUSAL_LM", **options}
    adapted = get_peft_model(model, LoraConfig(**chosen))
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                parameter.copy_(torch.randn_like(parameter) * 0.1)
    adapted.save_pretrained(directory, save_embedding_layers=False)
    return directory
