"""Whether the gate's evidence from fresh answers says of each trained version what the taste says, and of one that changed
nothing and one that babbles."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from learning_arms import mixed_rows
from learning_cells import NOISE, Bench
from learning_raters import TASTES, labels, win_rate

from rl.base.records import GeneratedAnswer, silent
from rl.evaluation.gate import Verdict
from rl.evaluation.judges.choosing import choose
from rl.evaluation.measures import fresh
from rl.evaluation.stats.budget import at_look
from rl.evaluation.weighing import Terms, weigh

TERMS = Terms(at_look(1), 0.0, 0.25, 100)


def print_verdicts(folder: Path, lines: list[dict[str, Any]]) -> None:
    bench = Bench(folder)
    print("| version | taste, budget | the taste's share | the judge's share, 95 % | verdict |")
    print("|---|---|---|---|---|")
    for name, line, new, old in _versions(bench, lines):
        judged, verdict = _judge(bench, line, new, old)
        share = win_rate(TASTES[line["taste"]], new, old)
        interval = judged.interval() if judged else None
        shown = f"{interval.value:.1%} ({interval.low:.1%} to {interval.high:.1%})" if interval else "-"
        print(
            f"| {name} | {line['taste']}, {line['budget']} | {share:.1%} | {shown} | {verdict.decision} |", flush=True
        )


def _versions(bench: Bench, lines: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any], list[str], list[str]]]:
    """Answers to the unseen questions: of each trained version, and once for each taste of two that are not trained."""
    seen: set[str] = set()
    for line in lines:
        file = bench.folder / "{arm}-{taste}-{budget}-{seed}-{bad:g}".format(**line) / "answers.json"
        if line["arm"].startswith("best") or not file.exists():
            continue
        answers = json.loads(file.read_text(encoding="utf-8"))
        new, old = (_first(answers[side]) for side in ("new", "base"))
        yield line["arm"], line, new, old
        if line["taste"] not in seen:
            seen.add(line["taste"])
            yield "unchanged", line, old, old
            yield "babbles", line, [_babble(text) for text in old], old


def _first(answers: dict[str, list[list[str]]]) -> list[str]:
    return [texts[0] for texts in answers["greedy"]]


def _babble(text: str) -> str:
    """The same words in an order of no sense, three times."""
    words = text.split()
    random.Random(text).shuffle(words)  # noqa: S311 - a simulation, no secret
    return " ".join(words * 3)


def _judge(bench: Bench, line: dict[str, Any], new: list[str], old: list[str]) -> tuple[fresh.Fresh | None, Verdict]:
    rated = {prompt: bench.answers[prompt] for prompt in bench.rated}
    given = labels(TASTES[line["taste"]], rated, line["budget"], line["seed"], NOISE, line["bad"])
    rows = [{**row, "prompt_key": row["prompt"][0]["content"]} for row in mixed_rows(given)]
    asked = [{"prompt": [{"role": "user", "content": prompt}], "prompt_key": prompt} for prompt in bench.unseen]
    answers = {name: [GeneratedAnswer(text, 1, 1) for text in texts] for name, texts in (("new", new), ("base", old))}
    judged = fresh.measure(choose("", bench.base.folder, 512, silent), "mpo", rows, asked, answers)
    unknown = Verdict("undecided", fresh.Interval(0.0, -1.0, 1.0), None, "")
    return judged, weigh(None, judged, unknown, {}, TERMS).verdict
