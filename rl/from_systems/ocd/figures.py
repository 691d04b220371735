"""Stored decisions, as OCD's calls ask for them: how many there are to learn from, and how the versions of an agent
compare."""

from typing import Any

from django.db import models
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce

from rl.collect.storable import unstorable
from rl.models import ApiKey, Feedback, Trace
from rl.models.traces import HELD_OUT, NEVER, SPLIT
from rl.web.api.auth import visible_to

RAW_REWARD = "rewards__decision__details__reward"
"""Where a trace has its raw reward, once it was calculated."""


def decisions(key: ApiKey, agent_type: str = "") -> models.QuerySet[Trace]:
    """Those that the key may see; none for a type that cannot be."""
    rows = visible_to(key, Trace.objects.filter(action__isnull=False))
    if not agent_type:
        return rows
    return rows.none() if unstorable(agent_type) else rows.filter(agent__name__iexact=agent_type)


def has_feedback() -> models.Exists:
    feedback = Feedback.objects.filter(trace=models.OuterRef("pk"), is_current=True, kind__in=("rating", "correction"))
    return models.Exists(feedback.order_by())


BLOCK = 100
"""Decisions of a block of progress."""


def training_stats(key: ApiKey, agent_type: str) -> dict[str, Any]:
    """Figures of the decisions of one type, or of all."""
    of_type = decisions(key, agent_type).order_by()
    figures = _with_reward(of_type).aggregate(
        total=models.Count("pk"), rewarded=models.Count("raw"), mean=models.Avg("raw")
    )
    total, rewarded = figures["total"], figures["rewarded"]
    by_type = of_type.values("agent__name").annotate(count=models.Count("pk")).order_by("agent__name")
    return {
        "totalDecisions": total,
        "decisionsWithReward": rewarded,
        "decisionsWithFeedback": of_type.filter(has_feedback()).count(),
        "avgReward": figures["mean"] or 0,
        "progressBlocks": total // BLOCK,
        "progressInCurrentBlock": total % BLOCK,
        "progressPercentage": 100 * (total % BLOCK) / BLOCK,
        "byAgentType": {row["agent__name"]: row["count"] for row in by_type},
        "readyForTraining": total >= 100 and rewarded >= 50,
    }


def get_training_stats(agent_type: str) -> dict[str, Any]:
    """The figures of one type under the names of OCD's Python scripts; rewards are raw ones, None where none is known."""
    rows = _with_reward(Trace.objects.filter(action__isnull=False, agent__name__iexact=agent_type)).order_by()
    held_out, never = (models.Q(**{f"details__{SPLIT}": split}) for split in (HELD_OUT, NEVER))
    for_training = ~models.Q(pk__in=rows.filter(never).values("pk"))
    return {
        **rows.aggregate(
            total_decisions=models.Count("pk"),
            decisions_with_reward=models.Count("raw"),
            avg_reward=models.Avg("raw"),
            min_reward=models.Min("raw"),
            max_reward=models.Max("raw"),
            training_data_count=models.Count("pk", filter=for_training),
            validation_data_count=models.Count("pk", filter=held_out),
        ),
        "decisions_with_feedback": rows.filter(has_feedback()).count(),
    }


def compare_versions(key: ApiKey, agent_type: str) -> dict[str, Any]:
    """By the ``modelVersion`` of its decisions."""
    of_type = decisions(key, agent_type).order_by()
    versions = _versions(of_type)
    answer = {"agentType": agent_type, "abTestingEnabled": len(versions) > 1}
    if len(versions) < 2:
        bare = [{name: row[name] for name in ("version", "description", "weight")} for row in versions]
        return {**answer, "message": f"{agent_type} has decisions of fewer than two versions", "versions": bare}
    overall = _with_reward(of_type).aggregate(mean=models.Avg("raw"))["mean"]
    total = sum(row["stats"]["totalDecisions"] for row in versions)
    names = {"bestReward": "avgReward", "bestAcceptanceRate": "acceptanceRate", "mostDecisions": "totalDecisions"}
    best = {name: _best(versions, figure) for name, figure in names.items()}
    figures = {"totalDecisions": total, "overallAvgReward": overall, "versions": versions}
    return {**answer, **figures, "comparison": best}


def _with_reward(rows: models.QuerySet[Trace]) -> models.QuerySet[Any]:
    """``raw``: the raw reward; None where there is none."""
    return rows.annotate(raw=Cast(KT(RAW_REWARD), models.FloatField()))


def _versions(of_type: models.QuerySet[Trace]) -> list[dict[str, Any]]:
    """One entry for each version, 100 at most, the one with the most decisions first."""
    named = Coalesce(KT("details__decision__modelVersion"), models.Value(""), output_field=models.CharField())
    confidence = Cast(KT("details__decision__confidence"), models.FloatField())
    rows = _with_reward(of_type).annotate(by=named, sure=confidence)
    grouped = rows.values("by").annotate(
        total=models.Count("pk"), rewarded=models.Count("raw"), mean=models.Avg("raw"), sure_mean=models.Avg("sure")
    )
    words_by_version, total = _words(rows), of_type.count()
    versions = []
    for row in grouped.order_by("-total", "by")[:100]:
        words = dict.fromkeys(("confirmed", "corrected", "ignored"), 0) | words_by_version.get(row["by"], {})
        decided = words["confirmed"] + words["corrected"]
        stats = {
            "totalDecisions": row["total"],
            "decisionsWithReward": row["rewarded"],
            "decisionsWithFeedback": sum(words.values()),
            "avgReward": row["mean"],
            "avgConfidence": row["sure_mean"],
            "acceptanceRate": words["confirmed"] / decided if decided else None,
            "feedbackBreakdown": words,
        }
        about = {"version": row["by"] or "unknown", "description": "", "weight": row["total"] / total}
        versions.append({**about, "stats": stats})
    return versions


def _words(rows: models.QuerySet[Any]) -> dict[str, dict[str, int]]:
    """Version to how many of its decisions people confirmed, corrected (or overrode), ignored."""
    events = rows.filter(feedback__kind=Feedback.Kind.RATING, feedback__is_current=True)
    counted = events.annotate(
        word=models.Case(
            models.When(feedback__value__gt=0.5, then=models.Value("confirmed")),
            models.When(feedback__value__lt=0.5, then=models.Value("corrected")),
            default=models.Value("ignored"),
        )
    )
    by_version: dict[str, dict[str, int]] = {}
    for version, word, count in counted.values_list("by", "word").annotate(count=models.Count("pk")):
        by_version.setdefault(version, {})[word] = count
    return by_version


def _best(versions: list[dict[str, Any]], name: str) -> dict[str, Any] | None:
    """A whole entry; None where no version has the figure."""
    known = [row for row in versions if row["stats"][name] is not None]
    return max(known, key=lambda row: row["stats"][name], default=None)
