"""Whether verdicts on preferences are right about real people, with their own picks.

.venv/bin/python benchmarks/verdicts.py --people FILE [--json] [--draws 400] [--labels 200] [--no-judge]

FILE: a JSON list, or JSON lines, of what people preferred of two models' answers: PandaLM's test set (``instruction``,
``input``, ``response1``, ``response2``, ``annotator1`` … with 1, 2 or 0, ``cmp_key``), or LMArena's (``prompt``,
``response_a``, ``response_b``, ``model_a``, ``model_b``, ``winner``).

Each pair of models is taken in both directions as a new version and the one in use. Picks are drawn from the real ones: a
prompt, and one of its annotators. The judge learns from other prompts' labels, of pairs without the new model, and compares
the answers that people compared; all by the product's own code.

- ``intervals_hold``: how often people's share is within the 95 % interval at every one of 160 looks
- ``better_promoted``: clear directions (people's share is 65 % or more) that are promoted within the picks that are planned
- ``equal_promoted``: the same picks with sides turned by chance, promoted within 160 with the first stake
- ``wrong_alone``: directions in which people do not prefer the new model, and the judge alone promotes it
- ``forecasts_hold``: directions whose share is within the judge's forecast
- ``agreement``: of the judge with people's majority, by labels, beside the longer answer
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backend.settings")
os.environ.setdefault("SECRET_KEY", "benchmark-only-benchmark-only-benchmark-only-benchmark")
os.environ.setdefault("DATA_DIR", tempfile.mkdtemp())
os.environ.setdefault("DEBUG", "1")

from picks import grown

from rl.base.errors import BadFile
from rl.base.measurements import wilson
from rl.evaluation.stats.bets import MOST_PICKS, picks_needed
from rl.evaluation.stats.budget import FIRST_STAKE

CLEAR: Final = 0.65
FEWEST: Final = 30
"""Prompts of a pair of models; with fewer it is left out."""
VOTES: Final = {1: 1.0, 2: 0.0, 0: 0.5, "model_a": 1.0, "model_b": 0.0}
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Compared:
    """Two answers to a prompt. Votes are 1 for the first, 0 for the second, one half for neither."""

    prompt: str
    answers: tuple[str, str]
    models: tuple[str, str]
    votes: tuple[float, ...]

    def turned(self) -> Compared:
        return Compared(self.prompt, self.answers[::-1], self.models[::-1], tuple(1 - vote for vote in self.votes))

    @property
    def share(self) -> float:
        return fmean(self.votes)


def read_people(file: Path) -> list[Compared]:
    """Raises BadFile with the number of the row."""
    text = file.read_text(encoding="utf-8")
    rows = json.loads(text) if text.lstrip().startswith("[") else list(map(json.loads, text.splitlines()))
    compared = []
    for number, row in enumerate(rows, 1):
        try:
            compared.append(_compared(row))
        except (KeyError, TypeError, ValueError) as error:
            raise BadFile(file, f"row {number} is neither PandaLM's nor LMArena's: {error!r}") from error
    return compared


def _compared(row: Mapping[str, Any]) -> Compared:
    if "winner" in row:
        models, answers = (row["model_a"], row["model_b"]), (row["response_a"], row["response_b"])
        return Compared(row["prompt"], answers, models, (VOTES.get(row["winner"], 0.5),))
    names = sorted(name for name in row if name.startswith("annotator"))
    prompt = "\n".join(filter(None, [row["instruction"], row["input"]]))
    first, second = row["cmp_key"].split("_")
    return Compared(
        prompt, (row["response1"], row["response2"]), (first, second), tuple(VOTES[row[name]] for name in names)
    )


def directions(people: Sequence[Compared]) -> Iterator[list[Compared]]:
    """All that people said of one new model against another, both ways round."""
    by_models = defaultdict(list)
    for row in people:
        by_models[row.models].append(row)
    for rows in by_models.values():
        if len(rows) >= FEWEST:
            yield rows
            yield [row.turned() for row in rows]


# --- picks -------------------------------------------------------------------------------------------------------------


def draw_picks(rows: Sequence[Compared], number: int, rng: np.random.Generator) -> np.ndarray:
    """(number,): one vote of a prompt each."""
    return np.array([rng.choice(rows[at].votes) for at in rng.integers(len(rows), size=number)])


def holds(picks: np.ndarray, share: float) -> bool:
    """Whether the share is within ``bets.interval`` at every look."""
    if not 0 < share < 1:
        return True
    return bool((grown(picks, share) < 40).all() and (grown(1 - picks, 1 - share) < 40).all())


def planned(rows: Sequence[Compared]) -> int | None:
    """Picks within which this share is promoted in four of five cases; ties come on top."""
    ties = fmean(vote == 0.5 for row in rows for vote in row.votes)
    decided = (fmean(row.share for row in rows) - ties / 2) / (1 - ties)
    needed = picks_needed(decided, FIRST_STAKE)
    return math.ceil(needed / (1 - ties)) if needed else None


def try_picks(people: Sequence[Compared], draws: int, rng: np.random.Generator) -> Json:
    hold, better, equal = [], [], []
    for rows in directions(people):
        share, most = fmean(row.share for row in rows), planned(rows)
        for _ in range(draws):
            picks = draw_picks(rows, MOST_PICKS, rng)
            hold.append(holds(picks, share))
            if share >= CLEAR and most:
                better.append(bool((grown(picks[:most], 0.5) >= 1 / FIRST_STAKE).any()))
            turned = np.where(rng.random(len(picks)) < 0.5, picks, 1 - picks)
            equal.append(bool((grown(turned, 0.5) >= 1 / FIRST_STAKE).any()))
    return {
        "intervals_hold": as_share(hold),
        "better_promoted": as_share(better),
        "equal_promoted": {**as_share(equal), "level": FIRST_STAKE},
    }


def as_share(outcomes: Sequence[bool]) -> Json:
    if not outcomes:
        return {"share": None, "n": 0}
    interval = wilson(sum(outcomes), len(outcomes))
    return {"share": interval.value, "low": interval.low, "high": interval.high, "n": len(outcomes)}


# --- the judge ---------------------------------------------------------------------------------------------------------


def try_judge(people: Sequence[Compared], labels: int, seed: int) -> Json:
    """The product's judge, which reads each answer once."""
    import django

    django.setup()
    import verdicts_judge

    judge = verdicts_judge.Desk()
    wrong, hold, agreed, longer, table = [], [], [], [], []
    for rows in directions(people):
        share, new = fmean(row.share for row in rows), rows[0].models[0]
        asked = {row.prompt for row in rows}
        known = [row for row in people if new not in row.models and row.prompt not in asked and row.share != 0.5]
        random.Random(f"{seed} {rows[0].models}").shuffle(known)
        judged, decision = judge.weigh(known[:labels], rows)
        if judged is None:
            continue
        promoted = decision == "promote"
        wrong.append(promoted and share <= 0.5)
        hold.append(judged.forecast.low <= share <= judged.forecast.high)
        agreed.append(judged.judge.agreement.value)
        longer.append(judged.judge.longer)
        table.append(
            {"models": rows[0].models, "people": share, "forecast": judged.forecast.value, "verdict": decision}
        )
    figures = {"wrong_alone": as_share(wrong), "forecasts_hold": as_share(hold), "directions": table}
    agreement = {"labels": labels, "judge": fmean(agreed), "longer": fmean(longer)} if agreed else None
    return {**figures, "agreement": agreement}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=400, help="of picks, for each direction")
    parser.add_argument("--labels", type=int, default=200, help="that the judge learns from")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-judge", action="store_true", help="leave the judge out: the rest takes a minute")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    people = read_people(options.people)
    found: Json = {"compared": len(people), "directions": len(list(directions(people))), "draws": options.draws}
    found |= try_picks(people, options.draws, np.random.default_rng(options.seed))
    if not options.no_judge:
        found |= {"judged": try_judge(people, options.labels, options.seed)}
        found["wrong_alone"] = found["judged"]["wrong_alone"]
    print(
        json.dumps(found, indent=1) if options.json else "\n".join(f"{name}: {value}" for name, value in found.items())
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
