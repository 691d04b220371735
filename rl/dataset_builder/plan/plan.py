"""How many rows each method could use, what is missing, and which method to take."""

from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, NamedTuple

from django.db import connection

from rl.collect.feedback.judged_answers import read_accepted
from rl.data_formatter.answer_kinds import FIRST, AnswerKind, find_kind, normalise
from rl.data_formatter.opinions import OVER_CAP
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.plan.advice import ENOUGH, REMARKS, Advice, MethodPlan, advise, plans
from rl.dataset_builder.plan.figures import PAIRS_PER_PROMPT, RATINGS, Figures, figures
from rl.dataset_builder.plan.shortage import plural
from rl.dataset_builder.taking import can_be_taken
from rl.models import Agent
from rl.raters.agreement import limit

ENOUGH_OF_CLASS: Final = 10
"""Accepted answers of a class from which on further ones are not asked for."""
NAMED: Final = 8
"""Classes, those with the fewest answers first."""


class Rare(NamedTuple):
    name: str
    accepted: int

    def __str__(self) -> str:
        return f"{self.accepted} of `{self.name}`: {ENOUGH_OF_CLASS - self.accepted} more would help"


@dataclass(frozen=True, slots=True)
class AcceptedPlan:
    kind: AnswerKind
    accepted: int
    """Answers that were looked at."""
    rare: tuple[Rare, ...] = ()
    """Classes with fewer than ENOUGH_OF_CLASS accepted answers, at most NAMED of them."""
    unnamed: int = 0
    """Further ones."""

    @property
    def sentences(self) -> list[str]:
        """For people: the kind and why it is that; each rare class. Empty where nothing was accepted."""
        if not self.accepted:
            return []
        further = [f"{self.unnamed} more classes with fewer than {ENOUGH_OF_CLASS}"] if self.unnamed else []
        return [f"answers are {self.kind.kind}: {self.kind.reason}", *map(str, self.rare), *further]

    def as_dict(self) -> dict[str, Any]:
        rare = [
            {"name": rare.name, "accepted": rare.accepted, "missing": ENOUGH_OF_CLASS - rare.accepted}
            for rare in self.rare
        ]
        kind = {"kind": self.kind.kind, "reason": self.kind.reason, "accepted": self.accepted}
        return {**kind, "rare": rare, "unnamed": self.unnamed}


def accepted_plan(agent: Agent) -> AcceptedPlan:
    """One query, of the newest RATINGS events; about what a run finds in its rows."""
    texts = [accepted.answer for accepted in read_accepted(agent, FIRST, RATINGS)]
    kind = find_kind(texts, agent.answer_kind)
    if kind.kind != "closed":
        return AcceptedPlan(kind, len(texts))
    count = Counter(map(normalise, texts))
    rare = sorted((number, name) for name, number in count.items() if number < ENOUGH_OF_CLASS)
    named = tuple(Rare(name, number) for number, name in rare[:NAMED])
    return AcceptedPlan(kind, len(texts), named, len(rare) - len(named))


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    agent: str
    figures: Figures
    methods: list[MethodPlan]
    advice: Advice
    accepted: AcceptedPlan
    """What kind of answers people accept, and of which they accept few."""
    wording: str = ""
    """What would make it learn what it is asked; empty: nothing is known that would."""

    def as_dict(self) -> dict[str, Any]:
        methods = [{**asdict(plan), "ready": plan.ready} for plan in self.methods]
        return {
            "agent": self.agent,
            "figures": asdict(self.figures),
            "methods": methods,
            "advice": asdict(self.advice),
            "remarks": self.remarks,
            "accepted": self.accepted.as_dict(),
            "wording": self.wording,
        }

    @property
    def remarks(self) -> dict[str, str]:
        """What the numbers that are not exact leave open."""
        used = {plan.how for plan in self.methods if plan.rows}
        return {how: remark for how, remark in REMARKS.items() if how in used}


def training_plan(agent: Agent) -> TrainingPlan:
    """Writes nothing and reads no rows: well under a second beside a million answers."""
    agent_figures, accepted = figures(agent), accepted_plan(agent)
    methods = plans(
        agent_figures,
        uses_direct=agent.pair_type == Agent.PairType.PREFERENCE,
        agent=agent.name,
        has_right_answers=accepted.kind.has_right_answers,
    )
    methods, wording = apply_cap(agent, agent_figures, methods), ""
    if recorded := can_be_taken(agent):
        take = f"'manage.py prompt_template take --agent {agent.name} --name NAME --use'"
        wording = (
            f"the gateway recorded {plural(recorded, 'prompt')}: {take} makes a template of one, to train what is asked"
        )
    return TrainingPlan(agent.name, agent_figures, methods, advise(agent_figures, methods), accepted, wording)


def apply_cap(agent: Agent, figures: Figures, methods: list[MethodPlan]) -> list[MethodPlan]:
    """The plans with fewer rows, where one of several raters has too many. Rows with weights are weighed down instead, and
    those of rewards are nobody's. Two queries more, where several people have rated."""
    if agent.rater_cap >= 1 or not figures.several_raters:
        return methods
    pairs, labels = _pairs_and_labels(agent)
    of_method = {"dpo": pairs, "kto": labels, "reward_model": pairs}
    return [_with_cap(agent, plan, of_method[plan.method]) if plan.method in of_method else plan for plan in methods]


def _with_cap(agent: Agent, plan: MethodPlan, rows_of: Counter[str]) -> MethodPlan:
    own = {rater: number for rater, number in rows_of.items() if rater and number}
    bound = limit(own.values(), agent.rater_cap, max(0, plan.rows - sum(own.values())))
    trained = 1 - DataOptions().val_split
    over = round(trained * sum(max(0, number - int(bound)) for number in own.values())) if bound is not None else 0
    if not over:
        return plan
    rows = plan.rows - over
    missing = plan.missing or ("" if rows >= ENOUGH else f"{ENOUGH - rows} more rows: let other raters rate too")
    return replace(plan, rows=rows, made_of=f"{plan.made_of}; about {over:,} {OVER_CAP} are left out", missing=missing)


def _pairs_and_labels(agent: Agent) -> tuple[Counter[str], Counter[str]]:
    """By the rater on whom alone they rest; with an empty name, on several."""
    pairs: Counter[str] = Counter()
    labels: Counter[str] = Counter()
    direct = int(agent.pair_type == Agent.PairType.PREFERENCE)
    with connection.cursor() as cursor:
        cursor.execute(_RATED, [PAIRS_PER_PROMPT, PAIRS_PER_PROMPT, agent.pk, RATINGS])
        rated = cursor.fetchall()
        cursor.execute(_DIRECT, [direct, agent.pk])
        for rater, own_pairs, own_labels in (*rated, *cursor.fetchall()):
            pairs[rater] += int(own_pairs)
            labels[rater] += int(own_labels)
    return pairs, labels


_RATED = """
SELECT owner, sum(CASE WHEN liked * disliked < %s THEN liked * disliked ELSE %s END), sum(liked + disliked)
FROM (
    SELECT t.prompt_key, CASE WHEN min(a.first) = max(a.last) THEN min(a.first) ELSE '' END AS owner,
           sum(CASE WHEN t.response <> '' AND a.up > a.down THEN 1 ELSE 0 END) AS liked,
           sum(CASE WHEN t.response <> '' AND a.down > a.up THEN 1 ELSE 0 END) AS disliked
    FROM (
        SELECT trace_id, min(rater) AS first, max(rater) AS last,
               sum(CASE WHEN value > 0.5 THEN 1 ELSE 0 END) AS up,
               sum(CASE WHEN value < 0.5 THEN 1 ELSE 0 END) AS down
        FROM (
            SELECT trace_id, rater, value FROM rl_feedback
            WHERE agent_id = %s AND is_current AND NOT (kind = 'retraction') AND kind = 'rating'
            ORDER BY created_at DESC, id LIMIT %s
        ) newest
        GROUP BY trace_id
    ) a
    JOIN rl_trace t ON t.id = a.trace_id
    GROUP BY t.prompt_key
) by_prompt
GROUP BY owner
"""

_DIRECT = """
SELECT rater, %s * sum(CASE WHEN kind = 'correction' OR choice IN ('left', 'right') THEN 1 ELSE 0 END),
       2 * sum(CASE WHEN choice = 'both_bad' THEN 1 ELSE 0 END)
FROM rl_feedback
WHERE agent_id = %s AND is_current AND (kind = 'comparison' OR kind = 'correction')
GROUP BY rater
"""
