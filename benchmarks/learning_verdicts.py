"""Whether the gate says of each trained version what the taste says, and of three more: one that changed nothing, a broken
one, and one that babbles. By fresh answers, which a judge compares, and by the guard rails."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from learning_arms import mixed_rows
from learning_cells import NOISE, SEED, Bench
from learning_models import GREEDY, TOKENS, answer, moved, token_ids
from learning_raters import TASTES, labels, win_rate
from peft.tuners.lora import LoraLayer

from rl.base.measurements import Distance
from rl.base.records import GeneratedAnswer, silent
from rl.config.guard_limits import guard_limits
from rl.evaluation.gate import Verdict
from rl.evaluation.guards.answer_errors import kinds_of
from rl.evaluation.guards.findings import Findings, ModelAnswers
from rl.evaluation.guards.measure import PROMPTS, Guards
from rl.evaluation.guards.rails import hold
from rl.evaluation.measures import fresh
from rl.evaluation.preferring import Terms, choose_judge, weigh
from rl.evaluation.stats.budget import at_look
from rl.lm import loading
from rl.lm.divergence import likelihood

TERMS: Final = Terms(at_look(1), 0.0)
MOVED: Final = ("ours", "fresh")
"""Arms whose versions moved far enough to be broken by a larger adapter."""
TOO_FAR: Final = 4.0
"""By how much the adapter of a broken version is larger than what was learned."""


@dataclass(frozen=True, slots=True)
class Version:
    """With its greedy answers to the unseen questions."""

    name: str
    line: dict[str, Any]
    """Of the run whose labels the judge learns from."""
    new: list[str]
    kl: float
    """Nats a token from the base model."""


def print_verdicts(folder: Path, lines: list[dict[str, Any]]) -> None:
    bench = Bench(folder)
    old = [texts[0] for texts in bench.base_answers["greedy"]]
    print(
        "| version | taste, labels, bad raters | the taste's share | the judge's share, 95 % | guard rails | verdict |"
    )
    print("|---|---|---|---|---|---|")
    for version in _versions(bench, lines, old):
        judged, verdict = _judge(bench, version, old)
        broken = _broken_rails(bench, version, old)
        verdict = Guards({}, ", ".join(broken)).over(verdict)
        line, share = version.line, win_rate(TASTES[version.line["taste"]], version.new, old)
        interval = judged.forecast if judged else None
        shown = f"{interval.value:.1%} ({interval.low:.1%} to {interval.high:.1%})" if interval else "-"
        labelled = f"{line['taste']}, {line['budget']}, {line['bad']:.0%}"
        cells = (version.name, labelled, f"{share:.1%}", shown, ", ".join(broken) or "kept", verdict.decision)
        print(f"| {' | '.join(cells)} |", flush=True)


def _versions(bench: Bench, lines: list[dict[str, Any]], old: list[str]) -> Iterator[Version]:
    """Each trained version, and once for each taste three others."""
    seen: set[str] = set()
    for line in lines:
        folder = bench.folder / "{arm}-{taste}-{budget}-{seed}-{bad:g}".format(**line)
        if line["arm"].startswith("best") or not (folder / "answers.json").exists():
            continue
        answers = json.loads((folder / "answers.json").read_text(encoding="utf-8"))
        yield Version(line["arm"], line, [texts[0] for texts in answers["new"]["greedy"]], line["kl"])
        if line["taste"] not in seen and line["arm"] in MOVED and (folder / "adapter").exists():
            seen.add(line["taste"])
            yield Version("unchanged", line, old, 0.0)
            yield _break(bench, line, folder / "adapter")
            yield Version("babbles", line, [_babble(text) for text in old], 0.0)


def _break(bench: Bench, line: dict[str, Any], adapter: Path) -> Version:
    """What was learned, several times over."""
    with loading.with_weights(bench.base.model, adapter) as model:
        for module in model.modules():
            if isinstance(module, LoraLayer):
                module.scaling = {name: TOO_FAR * scale for name, scale in module.scaling.items()}
        new = [texts[0] for texts in answer(bench.base, model, bench.unseen, 1, GREEDY, SEED)]
        return Version("broken", line, new, moved(bench.base, model, bench.unseen, new))


def _babble(text: str) -> str:
    """The same words in an order of no sense, three times."""
    words = text.split()
    random.Random(text).shuffle(words)
    return " ".join(words * 3)


def _judge(bench: Bench, version: Version, old: list[str]) -> tuple[fresh.Fresh | None, Verdict]:
    line = version.line
    rated = {prompt: bench.answers[prompt] for prompt in bench.rated}
    given = labels(TASTES[line["taste"]], rated, line["budget"], line["seed"], NOISE, line["bad"])
    rows = [{**row, "prompt_key": row["prompt"][0]["content"]} for row in mixed_rows(given)]
    both = (("new", version.new), ("base", old))
    answers = {name: [GeneratedAnswer(text, 1, 1) for text in texts] for name, texts in both}
    judge = choose_judge("", bench.base.folder, 512, silent)
    judged = fresh.measure(judge, "mpo", rows, [_row(prompt) for prompt in bench.unseen], answers)
    return judged, weigh(None, judged, {"prompts": len(bench.unseen)}, TERMS).verdict


def _row(prompt: str) -> dict[str, Any]:
    return {"prompt": [{"role": "user", "content": prompt}], "prompt_key": prompt, "details": {}}


def _broken_rails(bench: Bench, version: Version, old: list[str]) -> list[str]:
    """Names of those that the first answers break, as an evaluation looks at them."""
    prompts, new, old = bench.unseen[:PROMPTS], version.new[:PROMPTS], old[:PROMPTS]
    rows = [_row(prompt) for prompt in prompts]
    likelihoods = [likelihood(bench.base.model, token_ids(bench.base, prompts, texts)) or 0.0 for texts in (new, old)]
    findings = Findings(
        _examine(bench, new, rows, old),
        _examine(bench, old, rows, []),
        [],
        distance=Distance(version.kl, *likelihoods),
    )
    return [rail.name for rail in hold(findings, guard_limits({})) if rail.broken]


def _examine(bench: Bench, texts: list[str], rows: list[dict[str, Any]], others: list[str]) -> ModelAnswers:
    """``others``: the base model's answers."""
    counts = [len(bench.base.tokenizer(text).input_ids) for text in texts]
    return ModelAnswers(
        texts,
        [
            kinds_of(GeneratedAnswer(text, 1, count), TOKENS, row, "", others[number : number + 1])
            for number, (text, count, row) in enumerate(zip(texts, counts, rows, strict=True))
        ],
        [None] * len(texts),
    )
