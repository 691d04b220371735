"""How likely each model finds both answers of held-out pairs: the raw material of preference accuracy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
) -> list[PairScore | None]:
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
) -> dict[str, list[PairScore | None]]:
    """Scores the same pairs under each adapter, None being the base model, which is loaded once.

    A pair is a mapping with ``prompt``, ``chosen``, ``rejected`` (lists of messages) and ``prompt_key``; each list has one
    place for each pair, in their order. Answers are cut at ``max_length`` tokens as in training, and a pair whose prompt
    alone is that long has None for a score. Raises UsageError for a base model that is none, and TrainingFailed for a
    model or an adapter that cannot be loaded.
    """
    loading.quiet()
    loading.leave_a_core_free()
    use_compact_head()
    report("stage", {"name": "loading the base model"})
    tokenizer, model = loading.load_tokenizer(base_model), loading.load_base(base_model, precision).eval()
    add_fused_lm_head(model)
    lengths = LengthCount()
    room = min(max_length, loading.context_length(model))
    fitting = [lengths.fit(row, room) for row in encode(tokenizer, pairs, len(pairs), report)]
    if lengths.dropped:
        report(
            "log", {"text": f"{lengths.dropped} of {lengths.rows} held-out pairs have too long a prompt; not scored"}
        )
    autocast = loading.autocast_dtype(precision)
    scores = {}
    for name, adapter in adapters.items():
        report("stage", {"name": f"scoring {name}"})
        with resource_advice(), loading.adapted(model, adapter) as adapted:
            found = _log_probs(adapted, [row for row in fitting if row is not None], autocast, report)
        scores[name] = [
            None if row is None else PairScore(pair["prompt_key"], *next(found))
            for pair, row in zip(pairs, fitting, strict=True)
        ]
    return scores


def _log_probs(
    model: torch.nn.Module, rows: Sequence[EncodedRow], autocast: torch.dtype | None, report: Report
) -> Iterator[tuple[float, float]]:
    """Of the chosen and of the rejected answer, row by row."""
    chosen = [(row["prompt_ids"], row["chosen_ids"]) for row in rows]
    rejected = [(row["prompt_ids"], row["rejected_ids"]) for row in rows]
    values = answer_log_probs(model, chosen + rejected, autocast, report)
    return zip(values[: len(rows)], values[len(rows) :], strict=True)
