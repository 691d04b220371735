"""Which learning rate each method bears, on one job and on one taste, beside the one that it takes by itself.

    .venv/bin/python benchmarks/method_rates.py job --train route.jsonl --test route-test.json --methods dpo kto
    .venv/bin/python benchmarks/method_rates.py taste --methods grpo ppo --rates own 1e-4

Every cell is a training from the command line on a site of its own. Of the job the first ``--rows`` rows are learned, and
right answers to the test file are counted, said freely. The taste is that for brief answers (learning_raters.py):
``--rows`` picks are learned, and the figure is the share of answers to prompts without ratings that the taste prefers to
the base model's. ``kto`` learns from the same answers as liked and disliked ones, ``grpo`` and ``ppo`` from a reward model
of the same rows, with its own rate. A reward model's figure is the share of pairs that it orders rightly: of a right and a
wrong answer to each question of the test file, or of stored answers to prompts without ratings.
"""

import argparse
import json
import random
import shlex
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from jobs_site import Site, set_up

METHODS: Final = ("dpo", "kto", "reward_model", "grpo", "ppo")
OWN: Final = "own"
RATES: Final = (OWN, "5e-5", "2e-4", "1e-3")
REWARDED: Final = ("grpo", "ppo")
TASTE: Final = "brief"
ROOM: Final = {"job": 12, "taste": 48}
"""Tokens of an answer that is generated while training."""
Pairs = Sequence[tuple[str, str, str]]
"""A prompt, the better and the worse answer."""


def main() -> None:
    options = _parser().parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        set_up(folder)
        task = _Job(options) if options.task == "job" else _Taste(options)
        for method in options.methods:
            for rate in options.rates:
                print(json.dumps(measure(task, folder, method, rate, options)), flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("task", choices=ROOM)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument(
        "--rates", nargs="+", default=RATES, help=f"learning rates; {OWN}: what the method takes by itself"
    )
    parser.add_argument("--train", type=Path, help="of the job: JSON lines of preference pairs")
    parser.add_argument("--test", type=Path, help="of the job: JSON, a list of prompts with their labels")
    parser.add_argument("--rows", type=int, default=50)
    parser.add_argument("--options", default="", help="of the training command")
    parser.add_argument("--folder", type=Path, help="keeps the sites here")
    return parser


class _Task(ABC):
    """Holds the rows that are learned, and scores a version."""

    def __init__(self, name: str, rows: list[dict[str, Any]], pairs: Pairs) -> None:
        from learning_models import load_base

        self.name, self.rows, self.pairs, self.base = name, rows, pairs, load_base()

    @abstractmethod
    def score(self, weights: Path) -> float:
        """Asks the version what nobody has rated."""


class _Job(_Task):
    def __init__(self, options: argparse.Namespace) -> None:
        import jobs_test

        from rl.data_formatter.answer_kinds import find_kind

        lines = options.train.read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines if line.strip()]
        test = jobs_test.read_test(options.test)
        rng, labels = random.Random(0), sorted({label for _, label in test})
        wrong = [rng.choice([other for other in labels if other != label]) for _, label in test]
        super().__init__(
            "job", rows[: options.rows], [(*asked, other) for asked, other in zip(test, wrong, strict=True)]
        )
        self.test, self.kind = test, find_kind([label for _, label in test])

    def score(self, weights: Path) -> float:
        import jobs_test

        return float(jobs_test.count(jobs_test.ask(self.base, weights, self.test), self.test, self.kind)["right"])


class _Taste(_Task):
    def __init__(self, options: argparse.Namespace) -> None:
        from learning_models import GREEDY, answer
        from learning_raters import LABELLED, TASTES, labels, read_answers

        given = read_answers()
        prompts, self.taste = list(given), TASTES[TASTE]
        rated = {prompt: given[prompt] for prompt in prompts[:LABELLED]}
        # the first half of labels are picks
        picks = labels(self.taste, rated, 2 * options.rows, 0, 0.0, 0.0)[: options.rows]
        unseen = {prompt: given[prompt] for prompt in prompts[LABELLED:]}
        pairs = [
            (prompt, *sorted(pair, key=self.taste, reverse=True))
            for prompt, texts in unseen.items()
            for pair in combinations(texts, 2)
            if self.taste(pair[0]) != self.taste(pair[1])
        ]
        super().__init__("taste", [_row(pick.prompt, pick.answer, pick.other or "") for pick in picks], pairs)  # type: ignore[arg-type]
        self.unseen = list(unseen)
        self.before = answer(self.base, self.base.model, self.unseen, 1, GREEDY, 0)

    def score(self, weights: Path) -> float:
        from learning_models import GREEDY, answer
        from learning_raters import win_rate

        from rl.lm import loading

        with loading.with_weights(self.base.model, weights) as model:
            new = answer(self.base, model, self.unseen, 1, GREEDY, 0)
        return round(win_rate(self.taste, [one for (one,) in new], [one for (one,) in self.before]), 3)


def _row(prompt: str, chosen: str, rejected: str) -> dict[str, Any]:
    sides = {"chosen": chosen, "rejected": rejected}
    return {"prompt": [{"role": "user", "content": prompt}]} | {
        name: [{"role": "assistant", "content": text}] for name, text in sides.items()
    }


def _thumbs(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Its two sides as a liked and a disliked answer."""
    sides = (("chosen", True), ("rejected", False))
    return [{"prompt": row["prompt"], "completion": row[name], "label": liked} for name, liked in sides]


def measure(task: _Task, folder: Path, method: str, rate: str, options: argparse.Namespace) -> dict[str, Any]:
    site = Site(folder / f"{task.name}-{method}-{rate}")
    site.open()
    site.add([side for row in task.rows for side in _thumbs(row)] if method == "kto" else task.rows)
    chosen = [] if rate == OWN else ["--learning-rate", rate]
    if method in REWARDED:
        of_model = site.train(method="reward_model")
        chosen += ["--reward-model", str(of_model["weights"]), "--max-new-tokens", str(ROOM[task.name])]
    led_to = site.train(*chosen, *shlex.split(options.options), method=method)
    cell = {"task": task.name, "method": method, "rate": rate, "cpu_seconds": led_to["cpu_seconds"]}
    if not led_to["weights"]:
        return {**cell, "error": led_to["error"] or led_to["said"][-300:]}
    weights = Path(led_to["weights"])
    figure = _order(task, weights) if method == "reward_model" else task.score(weights)
    return {**cell, "figure": figure, "taken": led_to["rate"], "verdict": led_to["verdict"]}


def _order(task: _Task, weights: Path) -> float:
    """Share of pairs in the right order."""
    from rl.base.records import silent
    from rl.training.reward_scoring import load

    asked = [(pair[0], text) for pair in task.pairs for text in pair[1:]]
    rows = [
        {"prompt": [{"role": "user", "content": prompt}], "completion": [{"role": "assistant", "content": text}]}
        for prompt, text in asked
    ]
    numbers = load(weights).numbers(rows, silent)
    return round(fmean(better > worse for better, worse in zip(numbers[::2], numbers[1::2], strict=True)), 3)  # type: ignore[operator]


if __name__ == "__main__":
    main()
