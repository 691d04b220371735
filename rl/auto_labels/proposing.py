"""Its proposals, stored apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from rl.auto_labels.learning import LEAF, Learned
from rl.base.errors import NotEnoughData
from rl.base.leaves import leaf
from rl.base.records import Report, silent
from rl.collect.traces.records import trace_record, with_feedback
from rl.models import Feedback, LabelModel, LabelProposal, Trace

CHUNK = 500
"""Proposals a transaction."""
STEPS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


@dataclass(slots=True)
class Proposed:
    good: int = 0
    bad: int = 0
    at_least: Counter[float] = field(default_factory=Counter)
    """Confidence to the number of proposals that are as sure as that or surer."""

    def count(self, good: bool, confidence: float) -> None:
        self.good, self.bad = self.good + good, self.bad + (not good)
        for step in STEPS:
            self.at_least[step] += confidence >= step

    def as_dict(self) -> dict[str, Any]:
        return {"good": self.good, "bad": self.bad, "at_least": {str(step): self.at_least[step] for step in STEPS}}


def propose(learned: Learned, *, limit: int | None = None, dry_run: bool = False, report: Report = silent) -> Proposed:
    """For the traces that nobody has labelled and this model has not judged yet, the newest first; a later call goes on.

    Raises NotEnoughData for a model that is not better than always saying the commoner label.
    """
    model, weights = learned.model, learned.weights
    if not model.is_informative:
        raise NotEnoughData(
            f"the model is right on {model.heldout_accuracy:.0%} of {model.heldout_labels} held-out labels, no better than "
            f"always saying the commoner one ({model.majority_share:.0%}): label more answers, then learn again"
        )
    classifier = leaf(LEAF)
    proposed = Proposed()
    done = 0
    for traces in _chunks(_waiting(model), limit):
        probabilities = classifier.probabilities(weights, [trace_record(trace) for trace in traces])
        proposals = [_proposal(model, trace, float(p)) for trace, p in zip(traces, probabilities, strict=True)]
        for proposal in proposals:
            proposed.count(proposal.good, proposal.confidence)
        if not dry_run:
            _store(proposals)
        done += len(traces)
        report("log" if limit is None else "step", _progress(done, limit))
    return proposed


def _waiting(model: LabelModel) -> QuerySet[Trace]:
    ratings = Feedback.objects.filter(trace=OuterRef("pk"), kind=Feedback.Kind.RATING, is_current=True)
    judged = LabelProposal.objects.filter(trace=OuterRef("pk"), label_model=model.pk)
    rows = Trace.objects.filter(agent=model.agent_id).exclude(response="")
    return with_feedback(rows.filter(~Exists(ratings), ~Exists(judged)).order_by("-created_at", "id"))


def _chunks(rows: QuerySet[Trace], limit: int | None) -> Iterator[list[Trace]]:
    """Each chunk starts behind the last trace of the one before, so that nothing is walked over twice."""
    left, last = limit, None
    while left is None or left > 0:
        behind = (
            rows
            if last is None
            else rows.filter(created_at__lte=last.created_at).filter(
                Q(created_at__lt=last.created_at) | Q(created_at=last.created_at, id__gt=last.pk)
            )
        )
        traces = list(behind[: CHUNK if left is None else min(CHUNK, left)])
        if not traces:
            return
        yield traces
        last = traces[-1]
        left = None if left is None else left - len(traces)


def _proposal(model: LabelModel, trace: Trace, good: float) -> LabelProposal:
    return LabelProposal(trace=trace, label_model=model, good=good > 0.5, confidence=max(good, 1 - good))


def _store(proposals: list[LabelProposal]) -> None:
    LabelProposal.objects.bulk_create(
        proposals,
        update_conflicts=True,
        unique_fields=["trace"],
        update_fields=["label_model", "good", "confidence"],
    )


def _progress(done: int, limit: int | None) -> dict[str, Any]:
    return {"text": f"{done:,} traces judged"} if limit is None else {"step": done, "total_steps": limit}
