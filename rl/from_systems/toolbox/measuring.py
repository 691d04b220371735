"""How well a trained model tells better from worse answers that it has not learned from."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

from rl.base.errors import NotEnoughData
from rl.base.leaves import import_name, leaf
from rl.base.records import silent
from rl.data_formatter import read_training_rows


def measure(method: str, rows: Path, base_model: str, weights: Path, max_length: int) -> dict[str, float]:
    """``rows``: of the method, from which contrasts are made as the evaluation makes them: of KTO's labels a good answer
    with a bad one, of GRPO's groups the best with the worst. Raises NotEnoughData where there are none."""
    keyed = [
        {**row, "prompt_key": json.dumps(row["prompt"], sort_keys=True)} for row in read_training_rows(rows, method)
    ]
    contrasts = import_name("rl.evaluation.contrasts.contrasts")(method, keyed)
    adapters = {"base": None, "new": weights}
    score = leaf("rl.evaluation.torch.scoring").score_versions
    scores = score(base_model, adapters, contrasts, max_length=max_length, report=silent) if contrasts else {}
    moved = [
        new.relative_to(base)
        for base, new in zip(*(scores.get(name, []) for name in adapters), strict=True)
        if base and new
    ]
    if not moved:
        raise NotEnoughData("no rows make a better and a worse answer: give labels of both kinds, or groups of answers")
    return {
        "eval_pairs": float(len(moved)),
        "eval_accuracy": fmean(pair.credit for pair in moved),
        "eval_margin": fmean(pair.margin for pair in moved),
    }
