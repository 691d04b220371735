"""Log-probabilities of both answers of pairs under the base model and a tuned one: an answer at a time, and as evaluation
computes them."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from django.test.utils import override_settings
from peft import LoraConfig, PeftModel, get_peft_model
from trl.trainer.utils import add_fused_lm_head

from benchmarks.speed_contest import Way, compete
from benchmarks.speed_rows import cross_pairs, make_pairs
from rl.base.records import silent
from rl.lm import loading
from rl.lm.kept_scores import kept_log_probs
from rl.lm.log_probs import use_compact_head
from rl.lm.score_folder import NAME
from rl.lm.token_tree.sharing import shared_tokens
from rl.lm.trunk import kept_trunk, layers_of, linear_layers

PAIRS: Final = 32
"""Four of each prompt."""
BY_ONE: Final = 2
"""Pairs of which answers are scored one at a time; the others would take as long each."""
Texts = list[tuple[list[int], list[int]]]
Scores = tuple[list[float], list[float]]
"""Of the texts under the base model and under the tuned one."""


def run(base: Path, folder: Path, rounds: int, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """The "loss" is the mean log-probability of a token of the answers that every way scores, over both models."""
    model, below = _load(base)
    pairs = cross_pairs(make_pairs(PAIRS // 2, model.get_base_model().config.vocab_size, share=True))
    texts = [(pair["prompt_ids"], pair[name]) for pair in pairs for name in ("chosen_ids", "rejected_ids")]
    of_all = texts[: 2 * BY_ONE]

    def mean(scores: Scores) -> float:
        tokens = sum(len(answer) for _, answer in of_all)
        return sum(sum(of_model[: len(of_all)]) for of_model in scores) / 2 / tokens

    def one_by_one(number: int) -> float:
        return mean(_both(model, lambda: [_score(model, *text) for text in of_all]))

    def first_time(number: int) -> float:
        return mean(_score_fast(model, below, texts, folder / f"first-{number}"))

    def again(number: int) -> float:
        shutil.copytree(known / NAME, folder / f"again-{number}" / NAME)
        return mean(_score_fast(model, below, texts, folder / f"again-{number}"))

    known = folder / "known"
    with model.disable_adapter(), _fast(model, below, known):
        kept_log_probs(model, texts, None, silent)
    ways = [
        Way("an answer at a time", one_by_one, part=BY_ONE / PAIRS),
        Way("ours, base scored before", again),
        Way("ours", first_time),
    ]
    return compete(ways, rounds, tell, warm=True)


@contextmanager
def _fast(model: PeftModel, below: int, folder: Path) -> Iterator[None]:
    """As evaluation reads texts; scores are kept in the folder."""
    folder.mkdir(exist_ok=True)
    base = loading.base_within(model)
    with (
        override_settings(DATA_DIR=folder),
        kept_trunk(base, below, folder / "states"),
        shared_tokens(base, silent),
    ):
        yield


def _score_fast(model: PeftModel, below: int, texts: Texts, folder: Path) -> Scores:
    with _fast(model, below, folder):
        return _both(model, lambda: kept_log_probs(model, texts, None, silent))


def _load(base: Path) -> tuple[PeftModel, int]:
    """With adapters on a third of the layers, and how many layers stay as they are."""
    use_compact_head()
    plain = loading.load_base(str(base), "fp32").eval()
    add_fused_lm_head(plain)
    count = len(layers_of(plain))
    below = count - max(1, round(count / 3))
    top = list(range(below, count))
    lora = LoraConfig(r=16, target_modules=linear_layers(plain), layers_to_transform=top, init_lora_weights=False)
    model = get_peft_model(plain, lora).eval()
    for name, weight in model.named_parameters():
        if ".lora_" in name:
            weight.data.mul_(0.02 / weight.data.std())  # as far from the base model as a trained adapter
    return model, below


def _both(model: PeftModel, score: Callable[[], list[float]]) -> Scores:
    with model.disable_adapter():
        base = score()
    return base, score()


@torch.no_grad()
def _score(model: PeftModel, prompt: list[int], answer: list[int]) -> float:
    ids = torch.tensor([prompt + answer])
    logits = model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1]  # (T, V)
    return float(logits.log_softmax(-1).gather(1, torch.tensor(answer)[:, None]).sum())
