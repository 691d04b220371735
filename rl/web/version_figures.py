"""What the page of a version says: its verdict in people's words, the intervals behind it, its rails, its files."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from rl.collect.feedback.judged_answers import share_right
from rl.config.guard_limits import CAPTIONS
from rl.data_formatter.answer_kinds import AnswerKind
from rl.models import Agent, Evaluation, ModelVersion, version_name
from rl.runs.duels import MADE

_NAMES: Final = {
    "right": _("Right answers, to questions that it had not learned"),
    "picks": _("People's picks between answers of both"),
    "fresh": _("Fresh answers, compared by a judge"),
    "margins": _("Answers that are there, ranked by both"),
}
_HEADINGS: Final = {
    "promote": _("{version} is better"),
    "reject": _("{version} is rejected"),
    "undecided": _("{version} is perhaps better"),
}


@dataclass(frozen=True, slots=True)
class Bar:
    """One interval of the picture. 0 to 100; at ``level`` both versions are as good."""

    name: str
    text: str
    value: float
    low: float
    high: float
    decides: bool
    level: float = 50.0
    against: str = ""
    """Name of the other version."""

    @property
    def width(self) -> float:
        return max(0.5, self.high - self.low)

    @property
    def colour(self) -> str:
        return "good" if self.low > self.level else "bad" if self.high < self.level else "warn"


@dataclass(frozen=True, slots=True)
class Sentence:
    heading: str
    text: str
    duels: int
    """That people are asked to decide."""


@dataclass(frozen=True, slots=True)
class ShownRail:
    name: str
    text: str
    limit: float | None
    broken: bool
    state: str
    """Broken, Kept, Shown (without a limit) or Not measured."""


def sentence(evaluation: Evaluation) -> Sentence:
    """The verdict as a person would say it."""
    shown, heading = bars(evaluation), gettext(_HEADINGS[evaluation.verdict])
    if evaluation.verdict == Evaluation.Verdict.PROMOTE and evaluation.report.get("margin"):
        heading = gettext("{version} is good enough")
    decisive = next((bar for bar in shown if bar.decides), None)
    if evaluation.verdict == Evaluation.Verdict.REJECT and any(rail.broken for rail in rails(evaluation)):
        heading = gettext("{version} broke a guard rail")
    elif evaluation.verdict == Evaluation.Verdict.REJECT and decisive and decisive.high < 50:
        heading = gettext("{version} is worse")
    rows = evaluation.report.get("groups", {}).get("rows", ())
    harmed = ", ".join(row["group"] for row in rows if row["worse"])
    if evaluation.verdict == Evaluation.Verdict.UNDECIDED and harmed:
        heading = gettext("{version} is worse for {groups}")
        if decisive and decisive.low > 50:
            heading = gettext("{version} is better on the whole, and worse for {groups}")
    heading = heading.format(version=evaluation.version.name, groups=harmed)
    return Sentence(heading, decisive.text if decisive else "", evaluation.report.get(MADE) or 0)


def bars(evaluation: Evaluation) -> list[Bar]:
    """The evidence that has an interval, the weightiest first."""
    report = evaluation.report
    parts = report.get("evidence") or [{"kind": "margins", **report}]
    by = report.get("decided_by", "margins")
    return [bar for part in parts if (bar := _bar(part, evaluation, part.get("kind") == by))]


def _bar(part: Mapping[str, Any], evaluation: Evaluation, decides: bool) -> Bar | None:
    kind = part.get("kind", "margins")
    other = version_name(evaluation.against) if evaluation.against else gettext("the base model")
    if interval := part.get("share"):
        ends = [100 * interval[name] for name in ("value", "low", "high")]
        text = gettext("It wins {value} of fresh answers against {other} ({low} to {high} %).")
        if kind == "picks":
            text = gettext("It is picked in {value} of comparisons by people against {other} ({low} to {high} %).")
        numbers, measure = [f"{ends[0]:.0f} %", *(f"{end:.0f}" for end in ends[1:])], ""
    elif interval := part.get("difference"):
        ends = [min(100.0, max(0.0, 50 + 50 * interval[name])) for name in ("value", "low", "high")]
        in_points = evaluation.report.get("measure", "right") == "right"  # else of rewards
        scale, digits = (100, 1) if in_points else (1, 3)  # as the gate writes them
        numbers = [f"{scale * interval[name]:+.{digits}f}".replace("-", "−") for name in ("value", "low", "high")]
        text, measure = gettext("{measure} against {other}: {value} ({low} to {high})."), _measure(evaluation)
        if in_points:
            text = gettext("{measure} against {other}: {value} points ({low} to {high}).")
    else:
        return None
    text = text.format(measure=measure, other=other, value=numbers[0], low=numbers[1], high=numbers[2])
    value, low, high = (round(end, 1) for end in ends)
    return Bar(
        gettext(_NAMES.get(kind, kind)), text, value, low, high, decides, against=version_name(evaluation.against)
    )


_STANDINGS: Final = {
    "right": _("It answers {share} of {number} questions right"),
    "success": _("It solves {share} of {number} held-out tasks"),
    "reward": _("It earns {share} of the highest reward on {number} held-out prompts"),
    "": _("It ranks {share} of {number} held-out pairs rightly"),
}


def standing(evaluation: Evaluation) -> Bar | None:
    """One share for a picture of many versions: how often its answers are preferred to those of what it was measured
    against; where nobody compared answers, how many are right beside the base model's on the same prompts."""
    report = evaluation.report
    shares = [part for part in report.get("evidence") or () if part.get("share")]
    if shares:
        deciding = (part for part in shares if part.get("kind") == report.get("decided_by"))
        return _bar(next(deciding, shares[0]), evaluation, decides=True)
    figures = (report.get("models") or {}).get("new") or {}
    interval = figures.get("reward") or figures.get("accuracy")
    if not interval:
        return None
    value, low, high = (round(100 * interval[name], 1) for name in ("value", "low", "high"))
    what, level = _STANDINGS.get(report.get("measure", ""), _STANDINGS[""]), round(100 * evaluation.base_accuracy, 1)
    what = gettext(what).format(share=f"{value:.0f} %", number=evaluation.pairs)
    text = gettext("{sentence} ({low} to {high} %); the base model {level} %.")
    text = text.format(sentence=what, low=f"{low:.0f}", high=f"{high:.0f}", level=f"{level:.0f}")
    return Bar(gettext("Beside the base model"), text, value, low, high, True, level, version_name(None))


def _measure(evaluation: Evaluation) -> str:
    measure = evaluation.report.get("measure")
    if measure == "right":
        return gettext("{sentence}; the difference").format(sentence=evaluation.report["said"])
    if measure in ("reward", "success"):
        tasks = gettext("On {number} held-out tasks, the difference in reward")
        prompts = gettext("On {number} held-out prompts, the difference in reward")
        return (tasks if measure == "success" else prompts).format(number=evaluation.prompts)
    ranks = gettext("On {number} held-out prompts, how much better it tells good answers from bad ones")
    return ranks.format(number=evaluation.prompts)


def rails(evaluation: Evaluation) -> list[ShownRail]:
    """Broken ones first."""
    rows = []
    for r in (evaluation.report.get("guards") or {}).get("rails", ()):
        kept = _("Shown") if r["limit"] is None else _("Kept")
        state = _("Broken") if r["broken"] else _("Not measured") if r.get("value") is None else kept
        rows.append(ShownRail(CAPTIONS.get(r["name"], r["name"]), r["text"], r["limit"], r["broken"], state))
    return sorted(rows, key=lambda rail: not rail.broken)


def newest_evaluation(version: ModelVersion) -> Evaluation | None:
    """The newest one of the weights, without those of exported files."""
    return version.evaluations.filter(artifact=None).select_related("version__agent", "against", "training_set").first()


def right_share(agent: Agent, version: ModelVersion | None, kind: AnswerKind) -> str | None:
    """How many of its judged answers are right, beside the version before; None: the base model. The answer is empty where
    nobody has judged one, and None where answers are neither right nor wrong. Two queries."""
    if not kind.has_right_answers:
        return None
    share = share_right(agent, version, kind)
    if not share.asked:
        return ""
    before = share_right(agent, version.parent, kind) if version else None
    text = gettext("Right in {share} of its answers that people have judged")
    if version and before and before.asked:
        text = gettext("Right in {share} of its answers that people have judged ({version} before it: {before})")
    return text.format(share=share, before=before, version=version_name(version.parent) if version else "")
