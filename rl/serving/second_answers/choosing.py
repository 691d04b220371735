"""Which answer gets a second one, and whose: the version in use and a candidate answer the other's prompts; without a
candidate the version in use answers its own again.

One in five is one that opinions differ on; the others are drawn at random, topic by topic. What is cleverer than chance
gains little here (https://arxiv.org/abs/2604.02766); the second answer is what gains.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from rl.models import Agent, AnswerPair, Feedback, LabelProposal, Trace
from rl.models.traces import answered_by, ended_by_itself, may_be_used
from rl.serving.gateway.routing import KnownAgent, Served

SOURCE = "second_answer"
"""The source of traces that nobody asked for."""
NEWEST = 500
"""Answers that are looked at, the newest of each version."""
DISPUTED_EVERY = 5
UNSURE = 0.6
"""A judge that is less sure than this of its own proposal is near the middle."""
_TOPIC_WORDS = 3
_ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Choice:
    first: UUID
    by: Served
    """Who gives the second answer."""
    repeats: bool
    """The same version answered before."""
    is_disputed: bool


def waiting(agent: Agent) -> QuerySet[AnswerPair]:
    """Pairs that were made in idle time and that nobody has compared."""
    compared = Feedback.objects.filter(kind=Feedback.Kind.COMPARISON, is_current=True)
    one_way = compared.filter(trace=OuterRef("left"), other_trace=OuterRef("right"))
    other_way = compared.filter(trace=OuterRef("right"), other_trace=OuterRef("left"))
    made = AnswerPair.objects.filter(agent=agent, origin=AnswerPair.Origin.SECOND).order_by()
    return made.exclude(Exists(one_way)).exclude(Exists(other_way))


def contestants(known: KnownAgent) -> list[Served]:
    """The version in use, and the newest that was made after it and answers; empty where nothing is served."""
    champion = next((row for row in known.deployed if row.alias == "champion"), None)
    live = known.serving(champion.version_id if champion else None)
    if live is None or live.upstream is None:
        return []
    newer = [row for row in known.deployed if row.upstream and (row.version_id or 0) > (live.version_id or 0)]
    return [live, max(newer, key=lambda row: row.version_id or 0)] if newer else [live]


def choose(agent: Agent, sides: Sequence[Served], chance: random.Random) -> Choice | None:
    """None where no prompt is left."""
    made = AnswerPair.objects.filter(agent=agent, origin=AnswerPair.Origin.SECOND).count()
    opens = {row.version_id: _open_answers(agent, row) for row in sides}
    disputed = made % DISPUTED_EVERY == DISPUTED_EVERY - 1
    for filtered in (True, False) if disputed else (False,):
        rows = [
            (side, pk, prompt)
            for side in sides
            for pk, prompt in _newest(
                opens[side.version_id].filter(_is_disputed()) if filtered else opens[side.version_id]
            )
        ]
        if rows:
            side, first = _by_topic(rows, chance)
            other = next((row for row in sides if row.version_id != side.version_id), side)
            return Choice(first, other, other is side, filtered)
    return None


def _open_answers(agent: Agent, side: Served) -> QuerySet[Trace]:
    """Its whole answers without tools, except to prompts that a pair compares already."""
    paired = AnswerPair.objects.filter(Q(left=OuterRef("pk")) | Q(right=OuterRef("pk")))
    doubled = Trace.objects.filter(agent=agent, source=SOURCE, prompt_key=OuterRef("prompt_key"))
    by = Q(model_version=side.version_id) if side.version_id is not None else answered_by(None)
    return (
        Trace.objects.filter(by, may_be_used(), ended_by_itself(), agent=agent, tool_calls=[])
        .exclude(Q(response="") | Q(source=SOURCE) | Q(details__has_key="tools"))
        .exclude(Q(Exists(paired)) | Q(Exists(doubled)))
        .order_by("-created_at", "id")
    )


def _newest(rows: QuerySet[Trace]) -> list[tuple[UUID, list[dict[str, str]]]]:
    asked = rows.values_list("pk", "prompt")[:NEWEST]
    return [
        (pk, prompt)
        for pk, prompt in asked
        if prompt and prompt[-1]["role"] == "user" and all(message["role"] in _ROLES for message in prompt)
    ]


def _is_disputed() -> Q:
    """People disagree on it, or the judge with them, or the judge hardly with itself."""
    ratings = Feedback.objects.filter(trace=OuterRef("pk"), kind=Feedback.Kind.RATING, is_current=True)
    liked, disliked = Q(Exists(ratings.filter(value__gt=0.5))), Q(Exists(ratings.filter(value__lt=0.5)))
    proposed = LabelProposal.objects.filter(trace=OuterRef("pk"))
    good, bad = Q(Exists(proposed.filter(good=True))), Q(Exists(proposed.filter(good=False)))
    unsure = Q(Exists(proposed.filter(confidence__lt=UNSURE)))
    return (liked & disliked) | (good & disliked) | (bad & liked) | unsure


def _by_topic(rows: Sequence[tuple[Served, UUID, list[dict[str, str]]]], chance: random.Random) -> tuple[Served, UUID]:
    """A topic is what questions begin with: crude, and enough that one form of question does not fill the queue."""
    topics = defaultdict(list)
    for side, pk, prompt in rows:
        topics[" ".join(prompt[-1]["content"].lower().split()[:_TOPIC_WORDS])].append((side, pk))
    return chance.choice(topics[chance.choice(sorted(topics))])
