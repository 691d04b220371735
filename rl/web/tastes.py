"""Whose ratings an agent learns from and how much they count, and one's own taste beside that of the demo's raters: whether
they prefer the shorter of two answers or the longer."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.db.models import Case, Count, Q, Value, When
from django.db.models.functions import Length

from rl.demo.load import SOURCE as DEMO
from rl.models import Agent, Feedback

NEWEST: Final = 500
"""Ratings that are looked at."""
_OF: Final = {"own": "yours", "demo": "simulated (the demo's)", "others": "other people's"}
_LEFT, _RIGHT = Q(choice=Feedback.Choice.LEFT), Q(choice=Feedback.Choice.RIGHT)


def describe_tastes(agent: Agent, rater: str) -> list[str]:
    """Sentences for ``rater``; none where nobody has rated."""
    groups = {row["whose"]: row for row in _count(agent, rater)}
    if not groups:
        return []
    counts = ", ".join(f"{groups[group]['ratings']} {words}" for group, words in _OF.items() if group in groups)
    total = sum(row["ratings"] for row in groups.values())
    which = f"The newest {NEWEST} ratings that count" if total == NEWEST else "Ratings that count"
    weights = f"{which}: {counts}. {describe_weights(agent)}"
    own, demo = groups.get("own"), groups.get("demo")
    if not (own and demo and own["picks"] and demo["picks"]):
        return [weights]
    return [weights, f"You prefer {_name_taste(own)}; the demo's raters {_name_taste(demo)}."]


def describe_weights(agent: Agent, *, weighs_raters: bool = True) -> str:
    """How much each rating counts in a training. ``weighs_raters``: as the method's configuration has it."""
    doubt = ", unless raters contradict each other" if weighs_raters else ""
    cap = f"; nobody decides more than {agent.rater_cap:.0%} of a training" if agent.rater_cap < 1 else ""
    return f"All weigh alike{doubt}{cap}."


def _count(agent: Agent, rater: str) -> Iterable[Mapping[str, Any]]:
    """Ratings of each group, its picks between answers of two lengths, and how many of these were for the shorter one."""
    words = agent.feedback.exclude(kind__in=(Feedback.Kind.RETRACTION, Feedback.Kind.OUTCOME))
    newest = words.filter(is_current=True).order_by("-created_at").values("pk")[:NEWEST]
    whose = Case(When(rater=rater, then=Value("own")), When(source=DEMO, then=Value("demo")), default=Value("others"))
    longer = Length("trace__response") - Length("other_trace__response")
    rows = Feedback.objects.filter(pk__in=newest).order_by().annotate(whose=whose, longer=longer).values("whose")
    return rows.annotate(
        ratings=Count("pk"),
        picks=Count("pk", filter=(_LEFT | _RIGHT) & ~Q(longer=0)),
        shorter=Count("pk", filter=(_LEFT & Q(longer__lt=0)) | (_RIGHT & Q(longer__gt=0))),
    )


def _name_taste(row: Mapping[str, int]) -> str:
    shorter, picks = row["shorter"], row["picks"]
    which, times = ("shorter", shorter) if 2 * shorter >= picks else ("longer", picks - shorter)
    return f"the {which} answer in {times} of {picks} pick{'' if picks == 1 else 's'}"
