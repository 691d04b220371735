"""Compares a fresh GGUF file, run by llama.cpp, with the model it was made from, run by transformers."""

import json
import logging
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy
import torch
from transformers import AutoModelForCausalLM

from rl.base.errors import ExportFailed, UsageError
from rl.base.messages import as_data
from rl.base.template_settings import SWITCH, template_settings
from rl.export.gguf.tokenizer import render_chat
from rl.export.hf.loading import load_config
from rl.export.llama_cpp.process import NOT_RUN, LlamaAnswer, LogitsWanted, ask, is_available
from rl.export.staging import scratch_directory
from rl.lm.chat.format import ChatFormat
from rl.lm.chat.template import TOOL, TOOL_NAME
from rl.lm.reading import read_tokenizer

POSITIONS = 96
"""At most so many next-token distributions are compared: each is as wide as the vocabulary."""
PROBE_TEXT = (
    "The pump's pressure isn't 12.5 bar, it's 1234567890!  Two  spaces,\ttab;\n\n\nnew lines.\r\n"
    "def f(x): return x**2 # café, naïve, Größe, Ωμέγα, привет, 你好世界, こんにちは, 🙂👍🏽 €5 – “quoted” WE'LL"
)
_CHAT = [{"role": "user", "content": "Which widget should show the temperature of pump 7?"}]
_CHATS = [
    _CHAT,
    [
        {"role": "system", "content": "Choose one widget."},
        *_CHAT,
        {"role": "assistant", "content": "A gauge."},
        {"role": "user", "content": "  and its\n\n  trend?\n"},
    ],
]
_ARGUMENTS, _CALL_ID = {"query": "pump 7", "most": 3}, "call00001"
_MOST_LOST = {
    "f32": 1e-4,
    "f16": 2e-3,
    "bf16": 2e-2,
    "q8_0": 5e-2,
    "q6_k": 0.2,
    "q5_k_m": 0.4,
    "q5_k_s": 0.4,
    "q5_0": 0.5,
    "q4_k_m": 0.6,
    "q4_k_s": 0.6,
    "q4_0": 1.0,
    "q3_k_l": 1.2,
    "q3_k_m": 1.2,
    "q3_k_s": 1.2,
    "q2_k": 1.7,
}
"""Divergence from the model as a share of the model's own divergence from knowing nothing. About ten times what random
weights lose to rounding, and thousands of times what trained ones lose, at the exact levels; a file with wrong positions
comes to between 1.4 and 2. The k-levels fail only when they are of no use at all."""
RESIDENT = 1 << 30
"""Bytes of a model that stay in memory; one layer more is loaded at a time."""


@dataclass(frozen=True, slots=True)
class _Probe:
    """What is asked of both, and what the model's own tokenizer makes of it."""

    chats: list[dict[str, Any] | str]
    texts: list[str]
    """Each chat as a prompt, BOS included."""
    tokens_of: list[list[int]]
    """Each prompt's."""
    with_tools: list[int]
    """Those of a chat in which a tool was called; empty where the template writes no tools."""
    probe_tokens: list[int]
    most_tokens: int

    @property
    def tokens(self) -> list[int]:
        """The chat, and some of the probe text if there is room."""
        chat = self.tokens_of[0]
        return (chat + self.probe_tokens)[: min(max(POSITIONS, len(chat)), self.most_tokens)]

    @property
    def first(self) -> int:
        return max(0, len(self.tokens) - POSITIONS)


def self_check(gguf_path: Path, model_dir: Path, level: str) -> dict[str, Any]:
    """Figures for a person: what was compared, and how far the next-token distributions are apart (natural logarithms;
    ``top3_max_difference`` is over the three likeliest tokens of the model at every position). Raises ExportFailed with the
    first difference when llama.cpp cannot load the file, splits text or renders a chat differently from transformers, or
    predicts something that the rounding of the level does not explain."""
    if not is_available():
        return {"skipped": NOT_RUN}
    tokenizer = read_tokenizer(str(model_dir), ExportFailed)
    probe = _make_probe(tokenizer, model_dir)
    with scratch_directory(gguf_path.parent, "logits") as folder:
        request = LogitsWanted(probe.tokens, probe.first, folder / "logits.f32")
        with_tools = [_ask_with_tools(tokenizer)] if probe.with_tools else []
        answer = ask(gguf_path, texts=[PROBE_TEXT, *probe.texts], chats=[*probe.chats, *with_tools], logits=request)
        logits = numpy.fromfile(request.file, numpy.float32).reshape(-1, answer.vocabulary)
    _check_tokens(answer, probe, tokenizer, gguf_path.name)
    with scratch_directory(gguf_path.parent, "layers") as folder:
        reference = _reference(model_dir, probe, folder)
    return {
        "tokens_equal": len(probe.probe_tokens) + sum(map(len, probe.tokens_of)),
        "chat_template": "equal" if tokenizer.chat_template else "none",
        "tools": _compare_tools(answer, probe, tokenizer),
        "positions": len(logits),
        **_compare(reference, logits, _MOST_LOST[level], probe.tokens[probe.first :], tokenizer, level),
    }


def _make_probe(tokenizer: Any, model_dir: Path) -> _Probe:
    has_template = bool(tokenizer.chat_template)
    texts = [render_chat(tokenizer, chat) for chat in _CHATS] if has_template else [_CHAT[0]["content"]]
    return _Probe(
        chats=[_request(tokenizer, chat) for chat in _CHATS] if has_template else [*texts],
        texts=texts,
        tokens_of=[tokenizer(text, add_special_tokens=not has_template)["input_ids"] for text in texts],
        with_tools=_tokens_with_tools(tokenizer) if has_template else [],
        probe_tokens=tokenizer(PROBE_TEXT, add_special_tokens=False)["input_ids"],
        most_tokens=getattr(load_config(str(model_dir)), "max_position_embeddings", None) or POSITIONS,
    )


def _request(tokenizer: Any, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """As the gateway sends it for the version."""
    thinks = bool(tokenizer.init_kwargs.get(SWITCH))
    return {"messages": messages, "chat_template_kwargs": template_settings(thinks)}


def _tokens_with_tools(tokenizer: Any) -> list[int]:
    try:
        chat = ChatFormat(tokenizer, speaks=False)
        return [] if chat.name == "plain" else chat.prompt_ids(_make_called_chat(_ARGUMENTS), [TOOL])
    except UsageError:  # nothing with tools can be trained either
        return []


def _ask_with_tools(tokenizer: Any) -> dict[str, Any]:
    return {**_request(tokenizer, _make_called_chat(json.dumps(_ARGUMENTS))), "tools": [TOOL]}


def _make_called_chat(arguments: Any) -> list[Any]:
    called = {"role": "assistant", "content": "", "tool_calls": [as_data(TOOL_NAME, arguments, _CALL_ID)]}
    return [*_CHAT, called, {"role": "tool", "tool_call_id": _CALL_ID, "name": TOOL_NAME, "content": "7 bar"}]


def _compare_tools(answer: LlamaAnswer, probe: _Probe, tokenizer: Any) -> str:
    """No reason to refuse a file: an agent may have no tools."""
    if not probe.with_tools:
        return "not checked: the chat template writes none"
    if answer.rendered[-1] is None:
        return "llama.cpp cannot write them as the chat template does"
    difference = _first_difference(answer.chat_tokens[-1], probe.with_tools, tokenizer)
    return f"written otherwise by llama.cpp than in training: {difference}" if difference else "equal"


def _check_tokens(answer: LlamaAnswer, probe: _Probe, tokenizer: Any, name: str) -> None:
    expected = [probe.probe_tokens, *(tokenizer(text, add_special_tokens=False)["input_ids"] for text in probe.texts)]
    for tokens, right in zip(answer.tokens, expected, strict=True):
        _same(tokens, right, tokenizer, f"llama.cpp splits text differently from the model's tokenizer in {name}")
    if None in answer.rendered[: len(probe.texts)]:
        raise ExportFailed(f"llama.cpp cannot render the model's chat template in {name}; export merged instead")
    what = f"llama.cpp does not turn a chat into the tokens that the model was trained on in {name}"
    for tokens, right in zip(answer.chat_tokens, probe.tokens_of, strict=False):
        _same(tokens, right, tokenizer, what)


def _same(tokens: list[int], right: list[int], tokenizer: Any, what: str) -> None:
    if difference := _first_difference(tokens, right, tokenizer):
        raise ExportFailed(f"{what}: {difference}; export merged instead")


def _first_difference(tokens: list[int], right: list[int], tokenizer: Any) -> str:
    """Empty for the same tokens."""
    for number, (ours, theirs) in enumerate(zip_longest(tokens, right)):
        if ours != theirs:
            texts = [
                "missing" if token is None else f"{token} {tokenizer.decode([token])!r}" for token in (ours, theirs)
            ]
            return f"token {number} is {texts[0]} instead of {texts[1]}"
    return ""


@torch.inference_mode()
def _reference(model_dir: Path, probe: _Probe, folder: Path) -> torch.Tensor:
    """Logits (positions, vocabulary) by transformers in 32 bits. What of a large model does not fit is read from its files
    layer by layer, when its turn comes."""
    logging.getLogger("accelerate.big_modeling").setLevel(logging.ERROR)  # it would warn of that
    model = AutoModelForCausalLM.from_pretrained(
        model_dir, dtype=torch.float32, device_map="auto", max_memory={"cpu": RESIDENT}, offload_folder=folder
    ).eval()
    count = len(probe.tokens) - probe.first
    logits: torch.Tensor = model(input_ids=torch.tensor([probe.tokens]), logits_to_keep=count).logits[0]
    return logits


def _compare(
    reference: torch.Tensor, logits: numpy.ndarray, most_lost: float, tokens: list[int], tokenizer: Any, level: str
) -> dict[str, Any]:
    """``reference`` and ``logits``: (positions, vocabulary). Divergence is Kullback-Leibler, of the file from the model."""
    kl, knows, same, apart = [], [], [], []
    for right, ours in zip(reference, torch.from_numpy(logits), strict=True):
        p, q = right.double().log_softmax(-1), ours.double().log_softmax(-1)
        best = p.topk(3).indices
        kl.append(float((p.exp() * (p - q)).sum()))
        knows.append(float((p.exp() * p).sum()) + float(numpy.log(len(p))))
        same.append(bool(best[0] == q.argmax()))
        apart.append(float((p[best] - q[best]).abs().max()))
    limit = most_lost * sum(knows) / len(knows)
    mean = sum(kl) / len(kl)
    if not mean <= limit:  # nor for logits that are not numbers
        position = next(number for number, divergence in enumerate(kl) if not divergence <= limit)
        after = tokenizer.decode(tokens[: position + 1])[-40:]
        raise ExportFailed(
            f"the {level} file does not behave like the model: its predictions diverge by {mean:.3g} (at most {limit:.3g} "
            f"is rounding), first after {after!r}, where log-probabilities are up to {apart[position]:.3g} apart"
        )
    return {
        "mean_kl": float(f"{mean:.3g}"),
        "top1_agreement": round(sum(same) / len(same), 4),
        "top3_max_difference": float(f"{max(apart):.3g}"),
    }
