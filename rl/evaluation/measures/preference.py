"""Preference accuracy: how three models rank held-out pairs, and what the report says of it.

What is compared is by how much likelier a model finds an answer than the base model does, DPO's implicit reward. Raw
log-probabilities of whole answers rank by length and hardly follow what a model says (Chen et al., 2024, arXiv 2405.19534).
"""

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rl.base.leaves import leaf
from rl.base.manner import Manner
from rl.base.measurements import Interval, PairScore
from rl.base.records import Report
from rl.evaluation import MODELS, SCORERS, Contest, of_each
from rl.evaluation.gate import Verdict
from rl.evaluation.held_out import HeldOut
from rl.evaluation.stats.intervals import mean_interval, prompt_accuracy

WORST_EXAMPLES = 10
SAMPLED = 200
"""Pairs, of a report that keeps each of their margins."""
Row = Mapping[str, Any]
_OTHER_BASE = "the base model of the version in use"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The held-out pairs that three models could score, as each of them sees them, relative to the base model: lists in the
    same order."""

    rows: list[Row]
    new: list[PairScore]
    base: list[PairScore]
    """Which sees no difference."""
    current: list[PairScore]
    """The version in use; the base model's scores when none is."""
    raw: dict[str, list[PairScore]]
    """The log-probabilities themselves, of each of MODELS."""
    unscored: int
    """Pairs whose prompt is too long for at least one of the models; they are in none of the lists."""

    @property
    def prompts(self) -> int:
        return len({score.prompt_key for score in self.new})


def compare(
    contest: Contest, held_out: HeldOut, report: Report, measure: str = "preference", also: Any = None
) -> Comparison:
    """Loads each base model once, and calls ``also`` for each model while it is loaded; there may be no held-out rows."""
    rows = held_out.rows
    if not rows and not also:
        return Comparison([], [], [], [], {name: [] for name in MODELS}, 0)
    score = leaf(SCORERS[measure]).score_versions
    options: dict[str, Any] = {"max_length": contest.max_length, "report": report}
    if also:
        options["also"] = lambda name, *loaded: None if name == _OTHER_BASE else also(name, *loaded)

    def ask(base: str, manner: Manner, compared: dict[str, Path | None]) -> dict[str, list[PairScore | None]]:
        """With the base model that the version in use was made from, where that is another one."""
        how = {**options, "manner": manner} if measure == "preference" else options
        return score(base, compared if "base" in compared else {_OTHER_BASE: None, **compared}, rows, **how)

    scores = of_each(contest, ask)
    others = (scores.get(name, scores["base"]) for name in ("current", _OTHER_BASE))
    models = scores["new"], scores["base"], *others
    # another base model may cut a text to another number of tokens, so a prompt can be too long for one of them only
    whole = [(row, *of_row) for row, *of_row in zip(rows, *models, strict=True) if None not in of_row]
    columns: Any = zip(*whole, strict=True) if whole else ([], [], [], [], [])
    kept, *raw, base_of_current = map(list, columns)
    new, base, current = (
        list(map(PairScore.relative_to, of_model, of_base))
        for of_model, of_base in zip(raw, (raw[1], raw[1], base_of_current), strict=True)
    )
    return Comparison(kept, new, base, current, dict(zip(MODELS, raw, strict=True)), len(rows) - len(whole))


def accuracy_of(scores: Sequence[PairScore]) -> Interval:
    """0.5 within [0, 1] when nothing is held out: nothing is known."""
    return prompt_accuracy(scores) if scores else Interval(0.5, 0.0, 1.0)


def likelier_chosen(scores: Comparison) -> Interval | None:
    """How much likelier, in nats a token, the new version finds the better answers than the base model does, by prompts;
    None where too few are held out to tell."""
    by_prompt: defaultdict[str, list[float]] = defaultdict(list)
    for new, base in zip(scores.raw["new"], scores.raw["base"], strict=True):
        if new.chosen_tokens:
            by_prompt[new.prompt_key].append((new.chosen_logp - base.chosen_logp) / new.chosen_tokens)
    return mean_interval(by_prompt) if len(by_prompt) > 1 else None


def describe(scores: Comparison, verdict: Verdict, margin: float) -> dict[str, Any]:
    """What the report page and ``--output`` show."""
    of_models = {name: getattr(scores, name) for name in MODELS}
    # what an exported file is compared with later: of MODELS, and the base model's own
    positions = {_key(row): position for position, row in enumerate(scores.rows)}
    columns = [*(getattr(scores, name) for name in MODELS), scores.raw["base"]]
    return {
        "reason": verdict.reason,
        "difference": asdict(verdict.difference),
        "margin": margin,
        "models": {name: figures(pair_scores) for name, pair_scores in of_models.items()},
        "unscored": scores.unscored,
        "worst": _worst(scores.new, scores.rows),
        "sampled": {
            key: [_finite(column[positions[key]].margin, None) for column in columns] for key in sample(scores.rows)
        },
    }


def sample(rows: Sequence[Row]) -> dict[str, Row]:
    """At most SAMPLED of them by a hash, each under a key of its own."""
    keyed = {_key(row): row for row in rows}
    return {key: keyed[key] for key in sorted(keyed)[:SAMPLED]}


def _key(row: Row) -> str:
    text = json.dumps([row["prompt"], row["chosen"], row["rejected"]], ensure_ascii=False, sort_keys=True)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def figures(scores: Sequence[PairScore]) -> dict[str, Any]:
    margins: dict[str, list[float]] = {}
    for score in scores:
        margins.setdefault(score.prompt_key, []).append(score.margin)
    interval = mean_interval(margins)
    return {"accuracy": asdict(accuracy_of(scores)), "margin": asdict(interval) if interval else None}


def _worst(scores: Sequence[PairScore], rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The pairs that the model gets most wrong; a margin that is not a number comes first and is null."""
    ranked = sorted(zip(scores, rows, strict=True), key=lambda pair: _finite(pair[0].margin, -math.inf))
    return [
        {
            "margin": _finite(score.margin, None),
            "prompt": row["prompt"][-1]["content"],
            **({"rejected_prompt": row["rejected_prompt"][-1]["content"]} if "rejected_prompt" in row else {}),
            "chosen": row["chosen"][-1]["content"],
            "rejected": row["rejected"][-1]["content"],
        }
        for score, row in ranked[:WORST_EXAMPLES]
    ]


def _finite(value: float, otherwise: Any) -> Any:
    return value if math.isfinite(value) else otherwise
