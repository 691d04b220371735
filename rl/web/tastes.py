"""Whose ratings an agent learns from and how much they count, and one's own taste beside that of the demo's raters: whether
they prefer the shorter of two answers or the longer."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.db.models import Case, Count, Q, Value, When
from django.db.models.functions import Length
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from rl.demo.load import SOURCE as DEMO
from rl.models import Agent, Feedback

NEWEST: Final = 500
"""Ratings that are looked at."""
_OF = {"own": _("{count} yours"), "demo": _("{count} simulated (the demo's)"), "others": _("{count} other people's")}
_LEFT, _RIGHT = Q(choice=Feedback.Choice.LEFT), Q(choice=Feedback.Choice.RIGHT)


def describe_tastes(agent: Agent, rater: str) -> list[str]:
    """Sentences for ``rater``; none where nobody has rated."""
    groups = {row["whose"]: row for row in _count(agent, rater)}
    if not groups:
        return []
    counts = ", ".join(words.format(count=groups[group]["ratings"]) for group, words in _OF.items() if group in groups)
    total = sum(row["ratings"] for row in groups.values())
    newest = gettext("The newest {number} ratings that count: {counts}.")
    which = newest if total == NEWEST else gettext("Ratings that count: {counts}.")
    weights = f"{which.format(number=NEWEST, counts=counts)} {describe_weights(agent)}"
    own, demo = groups.get("own"), groups.get("demo")
    if not (own and demo and own["picks"] and demo["picks"]):
        return [weights]
    both = gettext("You prefer {yours}; the demo's raters {theirs}.")
    return [weights, both.format(yours=_name_taste(own), theirs=_name_taste(demo))]


def describe_weights(agent: Agent, *, weighs_raters: bool = True) -> str:
    """How much each rating counts in a training. ``weighs_raters``: as the method's configuration has it."""
    cap = gettext("; nobody decides more than {cap} of a training").format(cap=f"{agent.rater_cap:.0%}")
    alike = gettext("All weigh alike{cap}.")
    if weighs_raters:
        alike = gettext("All weigh alike, unless raters contradict each other{cap}.")
    return alike.format(cap=cap if agent.rater_cap < 1 else "")


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
    if 2 * shorter < picks:
        text = ngettext("the longer answer in {times} of {n} pick", "the longer answer in {times} of {n} picks", picks)
        return text.format(times=picks - shorter, n=picks)
    text = ngettext("the shorter answer in {times} of {n} pick", "the shorter answer in {times} of {n} picks", picks)
    return text.format(times=shorter, n=picks)
