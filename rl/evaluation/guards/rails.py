"""Guard rails: what a version must keep to, however many pairs it ranks rightly. From a few answers of each model.

Few answers tell whether one is broken, so each rule leaves room for chance: of rates, one answer more breaks none; a loss of
reward, of accuracy on a task or of likelihood must lie beyond its 95 % interval; a length must be far from that of the
version in use and from that of the answers that people prefer. What people want is the measure, and not where the base model
stands: how far a version has moved from it is shown, and breaks nothing. Degenerate answers have a limit of their own,
whatever the version in use does: where that is broken too, no other rail would mind.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

from rl.base.measurements import Distance, Interval
from rl.data_formatter.answer_kinds import FREE, AnswerKind
from rl.evaluation.guards.answer_errors import DEGENERATE, NOT_READABLE
from rl.evaluation.lm_eval import TaskScores
from rl.evaluation.stats.intervals import mean_interval

FEWEST_ANSWERS = 2
"""That break a rate."""
FEWEST_PROMPTS = 8
"""That tell whether all answers are the same."""
SENTENCE_WORDS = 4
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\s*\n\s*")


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
    """What the limit is for; None where nothing was measured, or a divergence that is not a finite number."""
    limit: float | None
    """None: it is shown, and never broken."""
    broken: bool
    text: str
    """The figures in words, or why there are none."""


Finding = tuple[float | None, bool, str]
"""A rail's value, whether it is broken, and its text."""


def rails(
    new: Answers,
    current: Answers,
    preferred: Sequence[str],
    distance: Distance | None,
    limits: Mapping[str, float | None],
    has_format: bool,
    task: TaskScores | None = None,
    *,
    chosen: Interval | None = None,
    kind: AnswerKind = FREE,
) -> list[Rail]:
    """Those that are not switched off. ``preferred``: the answers that people prefer; none where none are stored.
    ``distance``: None: not measured; ``has_format``: a format is asked of the answers. ``chosen``: how much likelier, in
    nats a token, the new version finds held-out preferred answers than the base model does; ``kind``: of the answers."""
    examiners: dict[str, Callable[[Any], Finding]] = {
        "degenerate_rate": lambda limit: _degenerate(new, current, limit),
        "sameness": lambda limit: _sameness(new, current, preferred, limit),
        "off_kind_rate": lambda limit: _off_kind(new, current, kind, limit),
        "length_ratio": lambda limit: _length(new, current, preferred, limit),
        "empty_rate": lambda limit: _rate("empty", ("empty",), new, current, limit),
        "refusal_rate": lambda limit: _rate("refusals", ("refusal",), new, current, limit),
        "parse_error_rate": lambda limit: (
            _rate("not in the format", NOT_READABLE, new, current, limit)
            if has_format
            else (None, False, "no format is asked of its answers")
        ),
        "reward_loss": lambda limit: _reward(new, current, limit),
        "kl_to_base": lambda limit: _divergence(distance, limit),
        "chosen_likelihood": lambda limit: _likeliness(chosen, limit),
        "base_likelihood": lambda limit: _unlikeliness(distance, limit, kind),
        "task_loss": lambda limit: _task_loss(task, limit),
    }
    return [_make_rail(name, examine, limits[name]) for name, examine in examiners.items() if name in limits]


def task_loss(task: TaskScores | None, limit: float) -> Rail:
    return _make_rail("task_loss", partial(_task_loss, task), limit)


def _make_rail(name: str, examine: Callable[[Any], Finding], limit: float | None) -> Rail:
    value, broken, text = examine(limit)
    return Rail(name, value, limit, broken, text)


def broken_reason(all_rails: Sequence[Rail]) -> str:
    """One sentence for people that names what is broken and says how to allow it; empty when all is well."""
    descriptions = [
        f"{rail.name} ({rail.text}{'' if rail.limit is None else f', limit {rail.limit:g}'})"
        for rail in all_rails
        if rail.broken
    ]
    if not descriptions:
        return ""
    what = "A guard rail is broken" if len(descriptions) == 1 else f"{len(descriptions)} guard rails are broken"
    advice = "To allow it, raise the limit in the agent's guard limits, or set it to null."
    return f"{what}: {'; '.join(descriptions)}. {advice}"


def _length(new: Answers, current: Answers, preferred: Sequence[str], limit: float) -> Finding:
    """Broken when far from both; the ratio to the nearer of the two. An answer of no length counts as one character."""
    compared = {"of the version in use": current.length}
    if preferred:
        compared["of the preferred answers"] = fmean(len(text.strip()) for text in preferred)
    ratios = (max(new.length, 1.0) / max(length, 1.0) for length in compared.values())
    ratio = min(ratios, key=lambda ratio: abs(math.log(ratio)))
    lengths = ", ".join(f"{length:.0f} {what}" for what, length in compared.items())
    return ratio, not 1 / limit <= ratio <= limit, f"{new.length:.0f} characters on average, {lengths}"


def _degenerate(new: Answers, current: Answers, limit: float) -> Finding:
    rate, count = new.rate(DEGENERATE), new.count(DEGENERATE)
    kinds = ", ".join(f"{kind} {new.count([kind])}" for kind in DEGENERATE if new.count([kind]))
    what = f"degenerate: {count} of {len(new.texts)} answers{f' ({kinds})' if kinds else ''}"
    text = f"{what}, {current.count(DEGENERATE)} of the version in use"
    return rate, rate > limit and count >= FEWEST_ANSWERS, text


def _rate(what: str, kinds: Sequence[str], new: Answers, current: Answers, limit: float) -> Finding:
    more = new.rate(kinds) - current.rate(kinds)
    broken = more > limit and new.count(kinds) - current.count(kinds) >= FEWEST_ANSWERS
    text = f"{what}: {new.count(kinds)} of {len(new.texts)} answers, {current.count(kinds)} of the version in use"
    return more, broken, text


def _reward(new: Answers, current: Answers, limit: float) -> Finding:
    both = [(n, c) for n, c in zip(new.rewards, current.rewards, strict=True) if n is not None and c is not None]
    if len(both) < 2:
        return None, False, "no reward applies to its answers"
    interval = mean_interval({str(number): [n - c] for number, (n, c) in enumerate(both)})
    of_new, of_current = (fmean(rewards) for rewards in zip(*both, strict=True))
    loss = of_current - of_new
    broken = loss > limit and interval is not None and interval.high < 0
    return loss, broken, f"mean reward {of_new:.3f}, {of_current:.3f} in use, {len(both)} answers"


def _divergence(distance: Distance | None, limit: float | None) -> Finding:
    if distance is None:
        return None, False, "not measured"
    text = f"{distance.kl:.2f} nats a token from the base model"
    return _at_most(distance.kl, limit, text, "the divergence from the base model")


def _unlikeliness(distance: Distance | None, limit: float, kind: AnswerKind) -> Finding:
    """``off_kind_rate`` tells more of answers that have right ones: which of a set one is says nothing of how likely it
    is."""
    if kind.has_right_answers:
        return None, False, f"not measured: its answers are {kind.kind}"
    if distance is None:
        return None, False, "not measured"
    likely = {"its own answers": distance.base_likelihood}
    if distance.chosen_likelihood is not None:
        likely["those that people prefer"] = distance.chosen_likelihood
    others = ", ".join(f"{value:.2f} in {what}" for what, value in likely.items())
    text = f"the base model gives a token {distance.likelihood:.2f} nats, {others}"
    loss = min(likely.values()) - distance.likelihood
    return _at_most(loss, limit, text, "the likelihood under the base model")


def _at_most(value: float, limit: float | None, text: str, what: str) -> Finding:
    """Broken above the limit, and where the value is not a finite number."""
    if not math.isfinite(value):
        return None, True, f"{what} is not a number"
    return value, limit is not None and value > limit, text


def _likeliness(chosen: Interval | None, limit: float) -> Finding:
    if chosen is None:
        return None, False, "not measured: no preferred answers are held out"
    text = f"{chosen.value:+.2f} nats a token of held-out preferred answers ({chosen.low:+.2f} to {chosen.high:+.2f})"
    return -chosen.value, -chosen.value > limit and chosen.high < 0, text


def _sameness(new: Answers, current: Answers, preferred: Sequence[str], limit: float) -> Finding:
    if len(new.texts) < FEWEST_PROMPTS:
        return None, False, f"not measured: {FEWEST_PROMPTS} prompts tell"
    share, what = _most_said(new.texts)
    usual = max(_most_said(current.texts)[0], _most_said(preferred)[0] if preferred else 0.0)
    text = f"{share:.0%} of the answers say {what[:60]!r}, {usual:.0%} of others share one sentence"
    return share - usual, share - usual > limit, text


def _most_said(texts: Sequence[str]) -> tuple[float, str]:
    """The share of texts that have one sentence of some words in common, or are the same, and that sentence."""
    counts: Counter[str] = Counter()
    for text in texts:
        sentences = (part.strip() for part in _SENTENCE.split(text))
        long_ones = {sentence for sentence in sentences if len(sentence.split()) >= SENTENCE_WORDS}
        counts.update(part for part in {text.strip(), *long_ones} if part)
    if not counts:
        return 0.0, ""
    what, times = counts.most_common(1)[0]
    return times / len(texts), what


def _off_kind(new: Answers, current: Answers, kind: AnswerKind, limit: float) -> Finding:
    if not kind.has_right_answers:
        return None, False, "not measured: its answers are free"
    off_new, off_current = ([not kind.is_of_kind(text) for text in of_model.texts] for of_model in (new, current))
    more = fmean(off_new) - fmean(off_current)
    text = f"not {kind.kind}: {sum(off_new)} of {len(off_new)} answers, {sum(off_current)} of the version in use"
    return more, more > limit and sum(off_new) - sum(off_current) >= FEWEST_ANSWERS, text


def _task_loss(task: TaskScores | None, limit: float) -> Finding:
    if task is None:
        return None, False, "no task was named"
    loss = task.current - task.new
    broken = loss > limit and task.difference is not None and task.difference.high < 0
    return loss, broken, f"{task.metric} of {task.name} {task.new:.3f}, {task.current:.3f} in use, {task.rows} rows"
