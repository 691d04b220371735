"""Guard rails: what a version must keep to, however many pairs it ranks rightly. From a few answers of each model.

Few answers tell whether one is broken, so each rule leaves room for chance: of rates, one answer more breaks none; a loss of
reward or of accuracy on a task must lie beyond its 95 % interval; a length must be far from that of the version in use and
from that of the answers that people prefer. Degenerate answers and the distance from the base model have limits of their
own, whatever the version in use does: where that is broken too, no other rail would mind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from rl.base.measurements import Distance
from rl.evaluation.guards.answer_errors import DEGENERATE, NOT_READABLE
from rl.evaluation.lm_eval.results import TaskScores
from rl.evaluation.stats.intervals import mean_interval

FEWEST_ANSWERS = 2
"""That break a rate."""


@dataclass(frozen=True, slots=True)
class Answers:
    """One model's answers to the prompts that all models answered, in the same order."""

    texts: Sequence[str]
    errors: Sequence[Sequence[str]]
    """Kinds of each answer."""
    rewards: Sequence[float | None]

    @property
    def length(self) -> float:
        """Mean, in characters: models may cut the same text into other tokens."""
        return fmean(len(text.strip()) for text in self.texts)

    def count(self, kinds: Sequence[str]) -> int:
        """Answers with an error of one of these kinds."""
        return sum(any(kind in kinds for kind in of_answer) for of_answer in self.errors)

    def rate(self, kinds: Sequence[str]) -> float:
        return self.count(kinds) / len(self.texts)


@dataclass(frozen=True, slots=True)
class Rail:
    name: str
    """A key of GUARD_LIMITS."""
    value: float | None
    """What the limit is for; None where there is none to tell, or a divergence that is not a finite number."""
    limit: float
    broken: bool
    text: str
    """The figures in words, or why there are none."""


def rails(
    new: Answers,
    current: Answers,
    preferred: Sequence[int],
    distance: Distance | None,
    limits: Mapping[str, float],
    has_format: bool,
    task: TaskScores | None = None,
) -> list[Rail]:
    """Those that have a limit. ``preferred``: lengths of the answers that people prefer, in characters; none where none are
    stored. ``distance``: None: not measured; ``has_format``: a format is asked of the answers."""
    makers = {
        "degenerate_rate": lambda limit: _degenerate(new, current, limit),
        "length_ratio": lambda limit: _length(new, current, preferred, limit),
        "empty_rate": lambda limit: _rate("empty_rate", "empty", ("empty",), new, current, limit),
        "refusal_rate": lambda limit: _rate("refusal_rate", "refusals", ("refusal",), new, current, limit),
        "parse_error_rate": lambda limit: _format(new, current, limit, has_format),
        "reward_loss": lambda limit: _reward(new, current, limit),
        "kl_to_base": lambda limit: _divergence(distance, limit),
        "base_likelihood": lambda limit: _unlikeliness(distance, limit),
        "task_loss": lambda limit: task_loss(task, limit),
    }
    return [make_rail(limits[name]) for name, make_rail in makers.items() if name in limits]


def broken_reason(all_rails: Sequence[Rail]) -> str:
    """One sentence for people that names what is broken and says how to allow it; empty when all is well."""
    broken = [rail for rail in all_rails if rail.broken]
    if not broken:
        return ""
    descriptions = "; ".join(f"{rail.name} ({rail.text}, limit {rail.limit:g})" for rail in broken)
    what = "A guard rail is broken" if len(broken) == 1 else f"{len(broken)} guard rails are broken"
    return f"{what}: {descriptions}. To allow it, raise the limit in the agent's guard limits, or set it to null."


def _length(new: Answers, current: Answers, preferred: Sequence[int], limit: float) -> Rail:
    """Broken when far from both; the ratio to the nearer of the two."""
    compared = {"of the version in use": current.length}
    if preferred:
        compared["of the preferred answers"] = fmean(preferred)
    ratios = {what: _times(new.length, length) for what, length in compared.items()}
    nearest = min(ratios, key=lambda what: abs(math.log(ratios[what])))
    ratio = ratios[nearest]
    lengths = ", ".join(f"{length:.0f} {what}" for what, length in compared.items())
    text = f"{new.length:.0f} characters on average, {lengths}"
    return Rail("length_ratio", ratio, limit, not 1 / limit <= ratio <= limit, text)


def _times(length: float, reference: float) -> float:
    """An answer of no length counts as one character."""
    return max(length, 1.0) / max(reference, 1.0)


def _degenerate(new: Answers, current: Answers, limit: float) -> Rail:
    rate, count = new.rate(DEGENERATE), new.count(DEGENERATE)
    kinds = ", ".join(f"{kind} {new.count([kind])}" for kind in DEGENERATE if new.count([kind]))
    what = f"degenerate: {count} of {len(new.texts)} answers{f' ({kinds})' if kinds else ''}"
    text = f"{what}, {current.count(DEGENERATE)} of the version in use"
    return Rail("degenerate_rate", rate, limit, rate > limit and count >= FEWEST_ANSWERS, text)


def _rate(name: str, what: str, kinds: Sequence[str], new: Answers, current: Answers, limit: float) -> Rail:
    more = new.rate(kinds) - current.rate(kinds)
    broken = more > limit and new.count(kinds) - current.count(kinds) >= FEWEST_ANSWERS
    text = f"{what}: {new.count(kinds)} of {len(new.texts)} answers, {current.count(kinds)} of the version in use"
    return Rail(name, more, limit, broken, text)


def _format(new: Answers, current: Answers, limit: float, has_format: bool) -> Rail:
    if not has_format:
        return Rail("parse_error_rate", None, limit, False, "no format is asked of its answers")
    return _rate("parse_error_rate", "not in the format", NOT_READABLE, new, current, limit)


def _reward(new: Answers, current: Answers, limit: float) -> Rail:
    both = [(n, c) for n, c in zip(new.rewards, current.rewards, strict=True) if n is not None and c is not None]
    if len(both) < 2:
        return Rail("reward_loss", None, limit, False, "no reward applies to its answers")
    interval = mean_interval({str(number): [n - c] for number, (n, c) in enumerate(both)})
    loss = fmean(c for _, c in both) - fmean(n for n, _ in both)
    broken = loss > limit and interval is not None and interval.high < 0
    text = f"mean reward {fmean(n for n, _ in both):.3f}, {fmean(c for _, c in both):.3f} in use, {len(both)} answers"
    return Rail("reward_loss", loss, limit, broken, text)


def _divergence(distance: Distance | None, limit: float) -> Rail:
    if distance is None:
        return Rail("kl_to_base", None, limit, False, "not measured")
    text = f"{distance.kl:.2f} nats a token from the base model"
    return _at_most("kl_to_base", distance.kl, limit, text, "the divergence from the base model")


def _unlikeliness(distance: Distance | None, limit: float) -> Rail:
    if distance is None:
        return Rail("base_likelihood", None, limit, False, "not measured")
    loss = distance.base_likelihood - distance.likelihood
    text = f"the base model gives a token {distance.likelihood:.2f} nats, {distance.base_likelihood:.2f} in its own answers"
    return _at_most("base_likelihood", loss, limit, text, "the likelihood under the base model")


def _at_most(name: str, value: float, limit: float, text: str, what: str) -> Rail:
    """Broken above the limit, and where the value is not a finite number."""
    if not math.isfinite(value):
        return Rail(name, None, limit, True, f"{what} is not a number")
    return Rail(name, value, limit, value > limit, text)


def task_loss(task: TaskScores | None, limit: float) -> Rail:
    if task is None:
        return Rail("task_loss", None, limit, False, "no task was named")
    loss = task.current - task.new
    broken = loss > limit and task.difference is not None and task.difference.high < 0
    text = f"{task.metric} of {task.name} {task.new:.3f}, {task.current:.3f} in use, {task.rows} rows"
    return Rail("task_loss", loss, limit, broken, text)
