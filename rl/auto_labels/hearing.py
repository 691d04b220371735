"""The next message of a user says something of an answer: a model learns it from answers that people rated, and its opinions
are kept apart until people have looked at them.

The judge reads the message as the answer to what the agent wrote. Labels of both kinds weigh alike, so its probability is
what the message says by itself, and it is measured by cross-fitting: each conversation by a head that has not seen it. Right
is the mean of the shares of good and of bad answers that it tells, which is one half for whoever guesses."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from math import hypot
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from rl.auto_labels.follow_ups import NextMessage, find_next_messages
from rl.auto_labels.learning import Learned, check_variety, figures_of, find_labels, keep, read_labels
from rl.auto_labels.predicting import HEAD, RATERS, load_reader
from rl.auto_labels.proposing import CHUNK, Proposed, judge, steps_from, store
from rl.base.errors import NotEnoughData
from rl.base.leaves import leaf
from rl.base.measurements import Interval, wilson
from rl.base.records import Report, silent
from rl.judge.labels import MOST_ROWS, Answers, Opinion
from rl.models import Agent, Feedback, FollowUpLabel, LabelModel, Trace

GUESSING = 0.5


def learn_to_hear(agent: Agent, *, dry_run: bool = False, report: Report = silent) -> Learned:
    """Raises NotEnoughData, and UsageError as ``learn``."""
    heads, raters, began = leaf(HEAD), leaf(RATERS), timezone.now()
    messages, answers = find_next_messages(agent), Answers()

    def row_of(trace: Trace) -> tuple[int, str]:
        message = messages[trace.pk]
        return answers.add(*message.turned_round), message.conversation

    opinions = list(read_labels(find_labels(agent).filter(trace__in=list(messages))[:MOST_ROWS], row_of))
    check_variety(opinions, "answers with a next message")
    reader = load_reader(agent, report)
    features = reader.features(answers.conversations, report)
    report("stage", {"name": f"learning from {len(opinions):,} next messages"})
    measured = cross_hear(features, opinions)
    accuracy = balanced_accuracy(measured)
    model = LabelModel(agent=agent, reads=LabelModel.Reads.FOLLOW_UP, labels=len(opinions), **figures_of(measured))
    model.heldout_accuracy, model.accuracy_low, model.majority_share = accuracy.value, accuracy.low, GUESSING
    trusted = raters.weigh_opinions(opinions, raters.trust_raters(features, opinions))
    head = replace(heads.fit(features, _balance(trusted)), base_model=agent.base_model)
    if not dry_run:
        keep(model, head, began)
    return Learned(model, None, head, reader)


def cross_hear(features: Any, opinions: Sequence[Opinion]) -> list[tuple[float, bool]]:
    """For each label the probability of good by a head that has not seen its conversation, and whether it is. Raises
    NotEnoughData."""
    crossed = leaf(RATERS).cross_fit(features, opinions, weigh=_balance)
    if crossed is None:
        raise NotEnoughData("the rated answers are of too few conversations to measure by: rate answers of others too")
    right = [crossed.agreement(features, opinion) for opinion in opinions]
    goods = [opinion.value > 0.5 for opinion in opinions]
    return [(p if good else 1 - p, good) for p, good in zip(right, goods, strict=True)]


def hear(learned: Learned, *, limit: int | None = None, dry_run: bool = False, report: Report = silent) -> Proposed:
    """Reads the messages behind answers that nobody rated, the newest first; a later call goes on. Raises NotEnoughData
    for a model that may as well guess."""
    model = learned.model
    if not model.is_informative:
        raise NotEnoughData(
            f"of {model.heldout_labels} rated answers the next message tells the good from the bad ones in "
            f"{model.heldout_accuracy:.0%}, which may be chance (surely {model.accuracy_low:.0%}, and a coin has "
            f"{GUESSING:.0%}): rate more answers that people wrote back to, then learn again"
        )
    waiting = _waiting(model)[:limit]
    report("stage", {"name": f"reading {len(waiting):,} next messages"})
    proposed = Proposed()
    for start in range(0, len(waiting), CHUNK):
        part = waiting[start : start + CHUNK]
        judged = judge(
            learned, [message.turned_round for message in part], proposed, steps_from(start, len(waiting), report)
        )
        rows = [
            FollowUpLabel(trace_id=m.trace_id, next_trace_id=m.next_id, **own)
            for m, own in zip(part, judged, strict=True)
        ]
        if not dry_run:
            with transaction.atomic():
                store(FollowUpLabel, rows, "next_trace")
    return proposed


def _waiting(model: LabelModel) -> list[NextMessage]:
    messages = find_next_messages(model.agent)
    rated = Feedback.objects.filter(agent=model.agent_id, kind=Feedback.Kind.RATING, is_current=True).order_by()
    known: set[UUID] = set(rated.filter(trace__in=list(messages)).values_list("trace", flat=True))
    known |= set(FollowUpLabel.objects.filter(label_model=model.pk).values_list("trace", flat=True))
    waiting = (message for pk, message in messages.items() if pk not in known)
    return [message for message in waiting if message.text.strip() and message.answer.strip()]


def balanced_accuracy(measured: Collection[tuple[float, bool]]) -> Interval:
    """``measured`` as ``figures_of`` takes it, both kinds in it. The ends of the mean are those of the two Wilson intervals,
    put together by their squares (Zou and Donner, 2008)."""
    of_kind = {kind: [(p > 0.5) == good for p, good in measured if good == kind] for kind in (True, False)}
    good, bad = (wilson(sum(right), len(right)) for right in of_kind.values())
    mean = (good.value + bad.value) / 2
    below, above = (
        hypot(good.value - good.low, bad.value - bad.low),
        hypot(good.high - good.value, bad.high - bad.value),
    )
    return Interval(mean, mean - below / 2, mean + above / 2)


def _balance(opinions: Sequence[Opinion]) -> list[Opinion]:
    """Good ones and bad ones weigh as much, and all together as before."""
    weights: Counter[bool] = Counter()
    for opinion in opinions:
        weights[opinion.value > 0.5] += opinion.weight  # type: ignore[assignment]
    mean = sum(weights.values()) / 2
    return [replace(opinion, weight=opinion.weight * mean / weights[opinion.value > 0.5]) for opinion in opinions]
