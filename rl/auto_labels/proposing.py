"""Its proposals, stored apart."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from rl.auto_labels.learning import Learned
from rl.base.errors import NotEnoughData
from rl.base.records import Report, silent
from rl.judge.labels import Conversation
from rl.models import Feedback, FollowUpLabel, LabelModel, LabelProposal, Trace

CHUNK = 100
"""Proposals a transaction: work that an interruption may lose."""
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
    Raises NotEnoughData for a model that is not better than always saying the commoner label."""
    model = learned.model
    if not model.is_informative:
        raise NotEnoughData(
            f"the model is right on {model.heldout_accuracy:.0%} of {model.heldout_labels} held-out labels, no better than "
            f"always saying the commoner one ({model.majority_share:.0%}): label more answers, then learn again"
        )
    report("stage", {"name": "judging answers without a label"})
    waiting = _waiting(model)
    total = waiting.count() if limit is None else min(limit, waiting.count())
    proposed = Proposed()
    done = 0
    for traces in _chunks(waiting, limit):
        answers = [(trace.prompt, trace.response) for trace in traces]
        judged = judge(learned, answers, proposed, steps_from(done, total, report))
        proposals = [LabelProposal(trace=trace, **own) for trace, own in zip(traces, judged, strict=True)]
        if not dry_run:
            with transaction.atomic():  # those with a reward wait for a new one, which knows the proposal
                there = store(LabelProposal, proposals)
                Trace.objects.filter(pk__in=there, reward__isnull=False).update(reward_pending=True)
        done += len(traces)
    return proposed


def judge(
    learned: Learned, conversations: Sequence[Conversation], proposed: Proposed, report: Report
) -> Iterator[dict[str, Any]]:
    """Yields the columns of a row for each of them, and counts it."""
    features = learned.reader.features(conversations, report)
    for p in learned.head.goodness(features).tolist():
        proposed.count(p > 0.5, max(p, 1 - p))
        yield {"label_model": learned.model, "good": p > 0.5, "confidence": max(p, 1 - p)}


def steps_from(done: int, total: int, report: Report) -> Report:
    """Steps within a chunk as those of the whole."""

    def go_on(event: str, values: dict[str, Any]) -> None:
        if event == "step":
            step = done + values["step"]
            report("step", {"step": step, "total_steps": max(step, total), "metrics": {}})

    return go_on


def _waiting(model: LabelModel) -> QuerySet[Trace]:
    ratings = Feedback.objects.filter(trace=OuterRef("pk"), kind=Feedback.Kind.RATING, is_current=True)
    judged = LabelProposal.objects.filter(trace=OuterRef("pk"), label_model=model.pk)
    rows = Trace.objects.filter(agent=model.agent_id).exclude(response="")
    waiting = rows.filter(~Exists(ratings), ~Exists(judged)).order_by("-created_at", "id")
    return waiting.only("created_at", "prompt", "response")


def _chunks(rows: QuerySet[Trace], limit: int | None) -> Iterator[list[Trace]]:
    """Each chunk starts behind the last trace of the one before, so that nothing is walked over twice."""
    left, last = limit, None
    while left is None or left > 0:
        behind = rows
        if last is not None:
            older = Q(created_at__lt=last.created_at) | Q(created_at=last.created_at, id__gt=last.pk)
            behind = rows.filter(older, created_at__lte=last.created_at)
        traces = list(behind[: CHUNK if left is None else min(CHUNK, left)])
        if not traces:
            return
        yield traces
        last = traces[-1]
        left = None if left is None else left - len(traces)


def store(table: type[LabelProposal] | type[FollowUpLabel], rows: Sequence[Any], *others: str) -> set[UUID]:
    """In the caller's transaction. Passes over rows whose trace, or one of its ``others``, is gone; ids of what is there."""
    columns = [f"{name}_id" for name in ("trace", *others)]
    # locked in the order that whoever writes feedback or rewards locks them in
    traces = Trace.objects.filter(pk__in={getattr(row, column) for row in rows for column in columns}).order_by("pk")
    there: set[UUID] = set(traces.select_for_update(no_key=True).values_list("pk", flat=True))
    table.objects.bulk_create(
        [row for row in rows if there.issuperset(getattr(row, column) for column in columns)],
        update_conflicts=True,
        unique_fields=["trace"],
        update_fields=["label_model", "good", "confidence", *others],
    )
    return there
