"""Guard rails: what a version must keep to, however many pairs it ranks rightly. From a few answers of each model.

Few answers tell whether one is broken, so each rule leaves room for chance: of rates, one answer more breaks none; a loss of
reward or of accuracy on a task must lie beyond its 95 % interval; a length must be far from that of the version in use and
from that of the answers that people prefer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from rl.evaluation.guards.answer_errors import NOT_READABLE
from rl.evaluation.lm_eval.results import TaskScores
from rl.evaluation.stats.intervals import mean_interval

FEWEST_ANSWERS_MORE = 2


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
    kl: float | None,
    limits: Mapping[str, float],
    has_format: bool,
    task: TaskScores | None = None,
) -> list[Rail]:
    """Those that have a limit. ``preferred``: lengths of the answers that people prefer, in characters; none where none are
    stored. ``kl``: nats a token, None: not measured; ``has_format``: a format is asked of the answers."""
    makers = {
        "length_ratio": lambda limit: _length(new, current, preferred, limit),
        "empty_rate": lambda limit: _rate("empty_rate", "empty", ("empty",), new, current, limit),
        "refusal_rate": lambda limit: _rate("refusal_rate", "refusals", ("refusal",), new, current, limit),
        "parse_error_rate": lambda limit: _format(new, current, limit, has_format),
        "reward_loss": lambda limit: _reward(new, current, limit),
        "kl_to_base": lambda limit: _divergence(kl, limit),
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


def _rate(name: str, what: str, kinds: Sequence[str], new: Answers, current: Answers, limit: float) -> Rail:
    more = new.rate(kinds) - current.rate(kinds)
    broken = more > limit and new.count(kinds) - current.count(kinds) >= FEWEST_ANSWERS_MORE
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


def _divergence(kl: float | None, limit: float) -> Rail:
    if kl is None:
        return Rail("kl_to_base", None, limit, False, "not measured")
    finite = math.isfinite(kl)
    text = (
        f"{kl:.2f} nats a token from the base model" if finite else "the divergence from the base model is not a number"
    )
    return Rail("kl_to_base", kl if finite else None, limit, not finite or kl > limit, text)


def task_loss(task: TaskScores | None, limit: float) -> Rail:
    if task is None:
        return Rail("task_loss", None, limit, False, "no task was named")
    loss = task.current - task.new
    broken = loss > limit and task.difference is not None and task.difference.high < 0
    text = f"{task.metric} of {task.name} {task.new:.3f}, {task.current:.3f} in use, {task.rows} rows"
    return Rail("task_loss", loss, limit, broken, text)
