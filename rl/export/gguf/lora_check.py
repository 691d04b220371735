"""Compares a fresh GGUF adapter, run by llama.cpp on a GGUF of its base model, with the adapter in PEFT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from rl.base.errors import ExportFailed
from rl.export.gguf.tokenizer import render_chat
from rl.export.hf.loading import load_config, load_tokenizer, stored_dtype
from rl.export.llama_cpp.process import LogitsWanted, ask
from rl.export.staging import scratch_directory
from rl.lm.loading import errors_as, put_adapter, read_model

_POSITIONS = 64
"""At most so many next-token distributions are compared: each is as wide as the vocabulary."""
_CHAT = [
    {
        "role": "user",
        "content": "Which reading of pump 7 needs somebody to look at it today: its pressure of 12.5 bar, the "
        "temperature that rose by 3 degrees since 8:00, or the vibration? Say why, and whom to call.",
    }
]
_ROUNDED = 2e-2
"""Divergence as a share of PEFT's own from knowing nothing: about what weights in 16 bits are seen to lose, times ten."""
_MOST_OF_EFFECT = 0.25
"""Divergence as a share of what the adapter itself makes: an adapter that was left out would be 1."""


def check_in_llama_cpp(adapter_file: Path, base_file: Path, base_dir: Path, adapter_dir: Path) -> dict[str, Any]:
    """Figures for a person. ``mean_kl`` is the divergence of llama.cpp from PEFT, ``adapter_kl`` that of the bare base.

    Raises ExportFailed when llama.cpp cannot load the file, or predicts something else than PEFT.
    """
    tokens = _tokens(base_dir)
    with scratch_directory(adapter_file.parent, "logits") as folder:
        request = LogitsWanted(tokens, max(0, len(tokens) - _POSITIONS), folder / "logits.f32")
        answer = ask(base_file, adapter=adapter_file, logits=request)
        logits = torch.from_numpy(np.fromfile(request.file, np.float32).reshape(-1, answer.vocabulary))
    right, bare = _reference(base_dir, adapter_dir, tokens, request.first)
    divergence, effect = _divergence(right, logits), _divergence(right, bare)
    limit = max(_ROUNDED * _divergence(right, torch.zeros_like(right)), _MOST_OF_EFFECT * effect)
    if not divergence <= limit:  # nor for logits that are not numbers
        raise ExportFailed(
            f"the GGUF adapter does not behave like the adapter: predictions diverge by {divergence:.3g} (at most "
            f"{limit:.3g} is rounding), while the adapter itself makes {effect:.3g} of difference"
        )
    same = (right.argmax(-1) == logits.argmax(-1)).double().mean()
    return {
        "positions": len(logits),
        "mean_kl": float(f"{divergence:.3g}"),
        "adapter_kl": float(f"{effect:.3g}"),
        "top1_agreement": round(float(same), 4),
    }


def _tokens(base_dir: Path) -> list[int]:
    tokenizer = load_tokenizer(str(base_dir), None)
    text = render_chat(tokenizer, _CHAT) if tokenizer.chat_template else _CHAT[0]["content"]
    tokens: list[int] = tokenizer(text, add_special_tokens=not tokenizer.chat_template)["input_ids"]
    return tokens[: load_config(str(base_dir)).max_position_embeddings]


@torch.inference_mode()
def _reference(base_dir: Path, adapter_dir: Path, tokens: list[int], first: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits (positions, vocabulary) with the adapter, and without it."""
    with errors_as(ExportFailed, f"cannot load the model of {base_dir}"):
        model = read_model(str(base_dir), stored_dtype(load_config(str(base_dir))))
    adapted = put_adapter(model, adapter_dir, ExportFailed).eval()
    ids = torch.tensor([tokens])
    right = adapted(input_ids=ids).logits[0, first:]
    with adapted.disable_adapter():
        return right, adapted(input_ids=ids).logits[0, first:]


def _divergence(right: torch.Tensor, other: torch.Tensor) -> float:
    """Kullback-Leibler, from the right distribution, mean over the positions; natural logarithms."""
    p, q = right.double().log_softmax(-1), other.double().log_softmax(-1)
    return float((p.exp() * (p - q)).sum(-1).mean())
