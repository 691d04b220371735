"""What the page of a version says: its verdict in people's words, the intervals behind it, its rails, its files."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rl.collect.feedback.judged_answers import share_right
from rl.config.guard_limits import CAPTIONS
from rl.data_formatter.answer_kinds import AnswerKind
from rl.models import Agent, Evaluation, ModelVersion, version_name
from rl.runs.duels import MADE

_NAMES: Final = {
    "right": "Right answers, to questions that it had not learned",
    "picks": "People's picks between answers of both",
    "fresh": "Fresh answers, compared by a judge",
    "margins": "Answers that are there, ranked by both",
}
_HEADINGS: Final = {"promote": "better", "reject": "rejected", "undecided": "perhaps better"}


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
    version, shown = evaluation.version.name, bars(evaluation)
    heading = f"{version} is {_HEADINGS[evaluation.verdict]}"
    if evaluation.verdict == Evaluation.Verdict.PROMOTE and evaluation.report.get("margin"):
        heading = f"{version} is good enough"
    decisive = next((bar for bar in shown if bar.decides), None)
    if evaluation.verdict == Evaluation.Verdict.REJECT and any(rail.broken for rail in rails(evaluation)):
        heading = f"{version} broke a guard rail"
    elif evaluation.verdict == Evaluation.Verdict.REJECT and decisive and decisive.high < 50:
        heading = f"{version} is worse"
    rows = evaluation.report.get("groups", {}).get("rows", ())
    harmed = ", ".join(row["group"] for row in rows if row["worse"])
    if evaluation.verdict == Evaluation.Verdict.UNDECIDED and harmed:
        whole = "better on the whole, and " if decisive and decisive.low > 50 else ""
        heading = f"{version} is {whole}worse for {harmed}"
    return Sentence(heading, decisive.text if decisive else "", evaluation.report.get(MADE) or 0)


def bars(evaluation: Evaluation) -> list[Bar]:
    """The evidence that has an interval, the weightiest first."""
    report = evaluation.report
    parts = report.get("evidence") or [{"kind": "margins", **report}]
    by = report.get("decided_by", "margins")
    return [bar for part in parts if (bar := _bar(part, evaluation, part.get("kind") == by))]


def _bar(part: Mapping[str, Any], evaluation: Evaluation, decides: bool) -> Bar | None:
    kind = part.get("kind", "margins")
    other = version_name(evaluation.against) if evaluation.against else "the base model"
    if interval := part.get("share"):
        ends = [100 * interval[name] for name in ("value", "low", "high")]
        what = "is picked in" if kind == "picks" else "wins"
        things = "of comparisons by people" if kind == "picks" else "of fresh answers"
        text = f"It {what} {ends[0]:.0f} % {things} against {other} ({ends[1]:.0f} to {ends[2]:.0f} %)."
    elif interval := part.get("difference"):
        ends = [min(100.0, max(0.0, 50 + 50 * interval[name])) for name in ("value", "low", "high")]
        in_points = evaluation.report.get("measure", "right") == "right"  # else of rewards
        scale, digits, points = (100, 1, " points") if in_points else (1, 3, "")  # as the gate writes them
        numbers = [f"{scale * interval[name]:+.{digits}f}".replace("-", "−") for name in ("value", "low", "high")]
        text = f"{_measure(evaluation)} against {other}: {numbers[0]}{points} ({numbers[1]} to {numbers[2]})."
    else:
        return None
    value, low, high = (round(end, 1) for end in ends)
    return Bar(_NAMES.get(kind, kind), text, value, low, high, decides, against=version_name(evaluation.against))


_STANDINGS: Final = {
    "right": "It answers {} of {} questions right",
    "success": "It solves {} of {} held-out tasks",
    "reward": "It earns {} of the highest reward on {} held-out prompts",
    "": "It ranks {} of {} held-out pairs rightly",
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
    what = _STANDINGS.get(report.get("measure", ""), _STANDINGS[""]).format(f"{value:.0f} %", evaluation.pairs)
    level = round(100 * evaluation.base_accuracy, 1)
    text = f"{what} ({low:.0f} to {high:.0f} %); the base model {level:.0f} %."
    return Bar("Beside the base model", text, value, low, high, True, level, version_name(None))


def _measure(evaluation: Evaluation) -> str:
    measure = evaluation.report.get("measure")
    if measure == "right":
        return f"{evaluation.report['said']}; the difference"
    if measure in ("reward", "success"):
        what = "tasks" if measure == "success" else "prompts"
        return f"On {evaluation.prompts} held-out {what}, the difference in reward"
    return f"On {evaluation.prompts} held-out prompts, how much better it tells good answers from bad ones"


def rails(evaluation: Evaluation) -> list[ShownRail]:
    """Broken ones first."""
    rows = []
    for r in (evaluation.report.get("guards") or {}).get("rails", ()):
        kept = "Shown" if r["limit"] is None else "Kept"
        state = "Broken" if r["broken"] else "Not measured" if r.get("value") is None else kept
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
    beside = f" ({version_name(version.parent)} before it: {before})" if version and before and before.asked else ""
    return f"Right in {share} of its answers that people have judged{beside}"
