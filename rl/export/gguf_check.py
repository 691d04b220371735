"""Compares a fresh GGUF file, run by llama.cpp, with the model it was made from, run by transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rl.errors import ExportFailed
from rl.export.gguf_tokenizer import render_chat, starts_with_bos
from rl.export.levels import PLAIN_LEVELS
from rl.export.llama_process import ask, is_available

NEXT_TOKENS = 16
PROBE_TEXT = (
    "The pump's pressure isn't 12.5 bar, it's 1234567890!  Two  spaces,\ttab;\n\n\nnew lines.\r\n"
    "def f(x): return x**2 # café, naïve, Größe, Ωμέγα, привет, 你好世界, こんにちは, 🙂👍🏽 €5 – “quoted” WE'LL"
)
_CHAT = [{"role": "user", "content": "Which widget should show the temperature of pump 7?"}]
_LEAST_AGREEMENT = 0.5
"""Of the next tokens, at levels that round little. A wrong conversion agrees by accident only."""


def self_check(gguf_path: Path, model_dir: Path, level: str) -> dict[str, Any]:
    """Figures for a person; ``max_logprob_difference`` is over the next tokens on which both agree.

    Raises ExportFailed when llama.cpp cannot load the file or splits text differently from transformers, and, at levels
    that round little, when it mostly picks other next tokens.
    """
    if not is_available():
        return {"skipped": "the package xllamacpp is not installed (pip install xllamacpp), so the file was not run"}
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    chat_text = _chat_text(tokenizer)
    prompt = tokenizer(chat_text, add_special_tokens=not tokenizer.chat_template)["input_ids"]
    reference = _greedy_reference(model_dir, prompt)
    forced = [prompt + [token for token, _ in reference[:step]] for step in range(NEXT_TOKENS)]
    texts = [PROBE_TEXT, chat_text]
    answer = ask(gguf_path, texts=texts, chat=_CHAT if tokenizer.chat_template else (), prompts=forced)
    expected = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    _check_tokenisation(answer.tokens, expected, gguf_path)
    figures = _agreement(reference, [line[0] for line in answer.continuations])
    figures["probe_tokens"] = sum(map(len, expected))
    if tokenizer.chat_template:
        figures["chat_template_equal"] = answer.rendered == _without_bos(chat_text, tokenizer)
    if level in PLAIN_LEVELS and figures["next_tokens_equal"] < _LEAST_AGREEMENT * NEXT_TOKENS:
        raise ExportFailed(
            f"the {level} file does not behave like the model: llama.cpp picks the same next token in only "
            f"{figures['next_tokens_equal']} of {NEXT_TOKENS} places"
        )
    return figures


def _chat_text(tokenizer: Any) -> str:
    return render_chat(tokenizer, _CHAT) if tokenizer.chat_template else _CHAT[0]["content"]


def _without_bos(rendered: str, tokenizer: Any) -> str:
    """llama.cpp renders without the BOS that it adds itself."""
    return rendered.removeprefix(tokenizer.bos_token) if starts_with_bos(tokenizer) else rendered


@torch.inference_mode()
def _greedy_reference(model_dir: Path, prompt: list[int]) -> list[tuple[int, float]]:
    """The most probable next ids with their natural-log probabilities, each after the ones before it."""
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype="auto").eval()
    ids, cache, picked = torch.tensor([prompt]), None, []
    for _ in range(NEXT_TOKENS):
        output = model(input_ids=ids, past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        logprob, token = output.logits[0, -1].float().log_softmax(-1).max(-1)
        picked.append((int(token), float(logprob)))
        ids = token.view(1, 1)
    return picked


def _check_tokenisation(made: list[list[int]], expected: list[list[int]], gguf_path: Path) -> None:
    for ours, theirs in zip(made, expected, strict=True):
        if ours != theirs:
            differ = next(
                (i for i, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), len(ours)
            )
            raise ExportFailed(
                f"llama.cpp splits text differently from the model's tokenizer in {gguf_path.name}: token {differ} is "
                f"{ours[differ : differ + 1]} instead of {theirs[differ : differ + 1]}; export merged instead"
            )


def _agreement(reference: list[tuple[int, float]], made: list[tuple[int, float | None]]) -> dict[str, Any]:
    equal = [(a[1], b[1]) for a, b in zip(reference, made, strict=True) if a[0] == b[0]]
    differences = [abs(ours - theirs) for ours, theirs in equal if theirs is not None]
    return {
        "tokenisation_equal": True,
        "next_tokens_checked": len(reference),
        "next_tokens_equal": len(equal),
        "max_logprob_difference": round(max(differences), 6) if differences else None,
    }
