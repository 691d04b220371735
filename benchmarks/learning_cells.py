"""One run of the benchmark: labels, training, answers, and what the taste thinks of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from learning_arms import ARMS
from learning_judge import SAMPLES, best_of, learn_judge
from learning_models import GREEDY, SAMPLED, answer, load_base, moved, perplexity, words
from learning_raters import LABELLED, TASTES, Label, labels, read_answers, win_rate

from rl.dataset_builder import is_held_out
from rl.lm import loading

if TYPE_CHECKING:
    from learning import Cell

BEST_OF = "best-of-4"
HELD_OUT = 0.25
NOISE = 0.1
SEED = 7


class Bench:
    """The base model, and what it answers to everything that is asked at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.base = folder, load_base()
        self.answers = read_answers()
        prompts = list(self.answers)
        self.rated, self.unseen = prompts[:LABELLED], prompts[LABELLED:]
        self.held_out = [prompt for prompt in self.rated if is_held_out("learning", prompt, HELD_OUT)]
        self.samples: list[list[list[str]]] = []
        self.base_answers = self.ask(self.base.model)
        self.base_perplexity = perplexity(self.base, self.base.model)

    def ask(self, model: Any) -> dict[str, list[list[str]]]:
        """Greedy and sampled answers to unseen and held-out prompts."""
        return {
            "greedy": answer(self.base, model, self.unseen, 1, GREEDY, SEED),
            "sampled": answer(self.base, model, self.unseen, 2, SAMPLED, SEED),
            "held_out": answer(self.base, model, self.held_out, 1, GREEDY, SEED),
            "held_out_sampled": answer(self.base, model, self.held_out, 1, SAMPLED, SEED),
        }

    def labels(self, cell: Cell) -> tuple[list[Label], list[Label]]:
        """Those to learn from, and those of held-out prompts. TRL as it is has no gate, and learns from all of them."""
        rated = {prompt: self.answers[prompt] for prompt in self.rated}
        given = labels(TASTES[cell.taste], rated, cell.budget, cell.seed, NOISE, cell.bad)
        if cell.arm.startswith("trl"):
            return given, []
        kept_back = set(self.held_out)
        return [label for label in given if label.prompt not in kept_back], [
            label for label in given if label.prompt in kept_back
        ]

    def measure(self, cell: Cell) -> dict[str, Any]:
        folder = self.folder / f"{cell.arm}-{cell.taste}-{cell.budget}-{cell.seed}-{cell.bad:g}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        learned, kept_back = self.labels(cell)
        if cell.arm == BEST_OF:
            given, figures = self.pick(learned), {"kl": None, "perplexity": 1.0}
        else:
            given, figures = self.train(cell, learned, folder)
        (folder / "answers.json").write_text(json.dumps({"new": given, "base": self.base_answers}, ensure_ascii=False))
        (folder / "labels.json").write_text(
            json.dumps([[label.prompt, label.answer, label.other, label.up] for label in kept_back])
        )
        return {
            "labels": len(learned),
            **self.judge(cell, given),
            **{name: value and round(value, 4) for name, value in figures.items()},
        }

    def train(
        self, cell: Cell, learned: list[Label], folder: Path
    ) -> tuple[dict[str, list[list[str]]], dict[str, float | None]]:
        adapter = ARMS[cell.arm](self.base, learned, folder, cell.seed)
        with loading.with_weights(self.base.model, adapter) as model:
            given = self.ask(model)
            return given, {
                "kl": moved(self.base, model, self.unseen, [texts[0] for texts in given["greedy"]]),
                "perplexity": perplexity(self.base, model) / self.base_perplexity,
            }

    def pick(self, learned: list[Label]) -> dict[str, list[list[str]]]:
        """The best of four answers of the base model, and of four others."""
        head = learn_judge(self.base, learned)
        if not self.samples:
            self.samples = [
                answer(self.base, self.base.model, self.unseen, SAMPLES, SAMPLED, SEED + 1 + k) for k in range(2)
            ]
        picked = [best_of(self.base, head, self.unseen, samples) for samples in self.samples]
        return {"greedy": [[text] for text in picked[0]], "sampled": [list(both) for both in zip(*picked, strict=True)]}

    def judge(self, cell: Cell, given: dict[str, list[list[str]]]) -> dict[str, Any]:
        """By the taste itself."""
        rates, taste = {}, TASTES[cell.taste]
        for kind, of_prompts in given.items():
            new = [text for texts in of_prompts for text in texts]
            old = [text for texts in self.base_answers[kind] for text in texts]
            rates[kind] = round(win_rate(taste, new, old), 4)
        greedy = [texts[0] for texts in given["greedy"]]
        before = [texts[0] for texts in self.base_answers["greedy"]]
        return {
            **rates,
            "honest": True,
            "win_rate": round(fmean([rates["greedy"], rates["sampled"]]), 4),
            "words": round(words(greedy), 1),
            "words_before": round(words(before), 1),
        }
