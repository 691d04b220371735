"""How likely each model finds both answers of held-out pairs: the raw material of preference accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from trl.trainer.utils import add_fused_lm_head

from rl.records import PairScore, Report
from rl.training import loading
from rl.training.encoding import EncodedRow, LengthCount, encode
from rl.training.log_probs import answer_log_probs, use_compact_head
from rl.training.resources import resource_advice


def score_pairs(
    base_model: str,
    adapter_dir: Path | None,
    pairs: Sequence[Mapping[str, Any]],
    *,
    max_length: int,
    report: Report,
    precision: str = "auto",
) -> list[PairScore]:
    """``score_versions`` of one model; without an adapter, of the base model itself."""
    adapters = {"only": adapter_dir}
    return score_versions(base_model, adapters, pairs, max_length=max_length, report=report, precision=precision)[
        "only"
    ]


def score_versions(
    base_model: str,
    adapters: Mapping[str, Path | None],
    pairs: Sequence[Mapping[str, Any]],
    *,
    max_length: int,
    report: Report,
    precision: str = "auto",
) -> dict[str, list[PairScore]]:
    """Scores the same pairs under each adapter, None being the base model, which is loaded once.

    A pair is a mapping with ``prompt``, ``chosen``, ``rejected`` (lists of messages) and ``prompt_key``. Answers are cut
    at ``max_length`` tokens as in training, and pairs whose prompt alone is that long are left out of every list.
    Raises TrainingFailed for a model or an adapter that cannot be loaded.
    """
    loading.quiet()
    use_compact_head()
    report("stage", {"name": "loading the base model"})
    tokenizer, model = loading.load_tokenizer(base_model), loading.load_base(base_model, precision).eval()
    add_fused_lm_head(model)
    lengths = LengthCount()
    room = min(max_length, loading.context_length(model))
    encoded = [lengths.fit(row, room) for row in encode(tokenizer, pairs, len(pairs), report)]
    kept = [(pair["prompt_key"], row) for pair, row in zip(pairs, encoded, strict=True) if row is not None]
    if lengths.dropped:
        report(
            "log", {"text": f"{lengths.dropped} of {lengths.rows} held-out pairs have too long a prompt; not scored"}
        )
    autocast = loading.autocast_dtype(precision)
    scores = {}
    for name, adapter in adapters.items():
        report("stage", {"name": f"scoring {name}"})
        with resource_advice(), loading.adapted(model, adapter) as adapted:
            scores[name] = _score(adapted, kept, autocast, report)
    return scores


def _score(
    model: torch.nn.Module, rows: Sequence[tuple[str, EncodedRow]], autocast: torch.dtype | None, report: Report
) -> list[PairScore]:
    chosen = [(row["prompt_ids"], row["chosen_ids"]) for _, row in rows]
    rejected = [(row["prompt_ids"], row["rejected_ids"]) for _, row in rows]
    values = answer_log_probs(model, chosen + rejected, autocast, report)
    logps = zip(values[: len(rows)], values[len(rows) :], strict=True)
    return [PairScore(key, *both) for (key, _), both in zip(rows, logps, strict=True)]
