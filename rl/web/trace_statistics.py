"""What an agent's answers come to: how many came and were rated, day by day, what people think of the newest, and what
rewards and tools say."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from statistics import fmean
from typing import Any, Final
from uuid import UUID

from django.db.models import Count
from django.utils.translation import gettext_noop as _

from rl.base.measurements import wilson
from rl.collect.feedback.judged_answers import newest_feedback
from rl.collect.traces import records as trace_records
from rl.models import Agent, Feedback
from rl.web.dashboard_counts import count_by_day, feedback_by_day, last_days
from rl.web.kept_figures import keep, size_of, training_stats


@dataclass(slots=True)
class Ratings:
    """One answer has these ratings now, and its raters' tags."""

    good: int = 0
    bad: int = 0
    between: int = 0
    picked: int = 0
    passed: int = 0
    """Another answer was picked, side by side with this one."""
    edited: int = 0
    tags: list[str] = field(default_factory=list)


_SIDES = {
    "left": ("picked", "passed"),
    "right": ("passed", "picked"),
    "tie": ("between",) * 2,
    "both_bad": ("bad",) * 2,
}
"""Choice to what it says of the left answer and of the right one."""


def ratings_of(keys: Sequence[UUID]) -> dict[UUID, Ratings]:
    """Two queries: in one, or in an order, SQLite would read the table."""
    kinds = (Feedback.Kind.RATING, Feedback.Kind.CORRECTION, Feedback.Kind.COMPARISON)
    current = Feedback.objects.filter(is_current=True, kind__in=kinds).order_by()
    rows = current.values_list("created_at", "pk", "trace_id", "other_trace_id", "kind", "value", "choice", "tags")
    events = {row[1]: row for side in ("trace", "other_trace") for row in rows.filter(**{f"{side}__in": keys})}
    ratings: defaultdict[UUID, Ratings] = defaultdict(Ratings)
    for event in sorted(events.values()):
        key, other, kind, value, choice, tags = event[2:]
        of_trace = ratings[key]
        for side, count in zip((key, other), _SIDES.get(choice, ()), strict=False):
            setattr(ratings[side], count, getattr(ratings[side], count) + 1)
        of_trace.edited += kind == Feedback.Kind.CORRECTION
        if kind == Feedback.Kind.RATING and value is not None:
            name = "good" if value > 0.5 else "bad" if value < 0.5 else "between"
            setattr(of_trace, name, getattr(of_trace, name) + 1)
        of_trace.tags += [tag for tag in tags if tag not in of_trace.tags]
    return dict(ratings)


DAYS: Final = 90
SAMPLE: Final = 1000
"""Newest traces, and newest feedback, that are read for what only their rows know."""
AT_ONCE, SECONDS = 10, 0.5
"""Traces read before the first look at the clock, twice as many before the next, and when it is enough: tool calls may be
megabytes."""


def read_statistics(agent: Agent) -> dict[str, Any]:
    """They are at most a minute old where answers or ratings are many."""
    return keep(("statistics", agent.pk), lambda: count_statistics(agent), lambda counted: size_of(counted["stats"]))


def count_statistics(agent: Agent) -> dict[str, Any]:
    """Counts over all of the agent's traces and over DAYS; opinions, rewards and tools over the newest of them."""
    rewards: defaultdict[str, list[float]] = defaultdict(list)
    calls: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    keys = []
    for key, rewards_of_trace, tool_calls in _newest(agent):
        keys.append(key)
        for name, reward in rewards_of_trace.items() if isinstance(rewards_of_trace, dict) else ():
            if isinstance(reward, dict) and isinstance(reward.get("value"), (int, float)):
                rewards[name].append(reward["value"])
        for call in trace_records.tool_calls(tool_calls):
            calls[call.tool_name] += 1
            failed[call.tool_name] += not call.success
    stats, days = training_stats(agent), last_days(DAYS)
    answers, ratings = count_by_day(agent.traces.all(), days), feedback_by_day(agent.feedback.all(), days)
    return {
        "stats": stats,
        "liked": wilson(stats["up"], stats["ratings"]) if stats["ratings"] else None,
        "days": list(zip(days, answers, ratings, strict=True)),
        "this_week": sum(answers[-7:]),
        "rated_this_week": sum(ratings[-7:]),
        "sample": len(keys),
        "opinions": _opinions(keys),
        "sources": _sources(agent),
        "rewards": [
            {"name": name, "count": len(values), "percent": round(fmean(values) * 100)}
            for name, values in sorted(rewards.items())
        ],
        "tools": [
            {"name": name, "count": count, "percent": round(100 * (count - failed[name]) / count)}
            for name, count in calls.most_common(50)
        ],
    }


def _newest(agent: Agent) -> Iterator[tuple[UUID, Any, Any]]:
    """Rewards and tool calls of SAMPLE traces, or of as many as can be read in SECONDS."""
    rows = agent.traces.order_by("-created_at", "id").values_list("pk", "rewards", "tool_calls")
    until, start, number = time.monotonic() + SECONDS, 0, AT_ONCE
    while start < SAMPLE and time.monotonic() < until:
        some = list(rows[start : min(start + number, SAMPLE)])
        yield from some
        if len(some) < number:
            return
        start, number = start + number, 2 * number


def _opinions(keys: list[UUID]) -> list[Mapping[str, Any]]:
    """How many of these answers more people found good than bad, and so on, as parts of one bar. One query."""
    shares, ratings = dict.fromkeys((_("good"), _("bad"), _("otherwise"), _("unrated")), 0), ratings_of(keys)
    for key in keys:
        more = ratings[key].good - ratings[key].bad if key in ratings else None
        shares["unrated" if more is None else "good" if more > 0 else "bad" if more < 0 else "otherwise"] += 1
    starts = accumulate(shares.values(), initial=0)
    return [{"name": name, "count": shares[name], "start": start} for name, start in zip(shares, starts, strict=False)]


def _sources(agent: Agent) -> list[Mapping[str, Any]]:
    """Where the newest feedback came from, and what it was. One query."""
    rows = Feedback.objects.filter(pk__in=newest_feedback(agent, SAMPLE)).exclude(kind=Feedback.Kind.RETRACTION)
    counts = rows.order_by().values("source", "kind", "scale").annotate(count=Count("pk")).order_by("-count")
    words = {**dict(Feedback.Kind.choices), **dict(Feedback.Scale.choices)}
    return [{**row, "what": words.get(row["scale"] or row["kind"], row["scale"])} for row in counts]
