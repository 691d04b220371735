"""Guard rails: what a version must keep to, however many pairs it ranks rightly. From a few answers of each model.

Few answers tell whether one is broken, so each rule leaves room for chance: of rates, one answer more breaks none; a loss
of reward, of accuracy on a task or of likelihood must lie beyond its 95 % interval; lengths, words and what fits a question
must be far from those of the version in use and from those of the answers that people prefer. What people want is the
measure, and not where the base model stands: how far a version has moved from it is shown, and breaks nothing. Degenerate
answers have a limit of their own, whatever the version in use does: where that is broken too, no other rail would mind."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from statistics import fmean
from typing import Any, Final

from rl.data_formatter.degeneration import words_of
from rl.evaluation.guards.answer_errors import DEGENERATE, NOT_READABLE
from rl.evaluation.guards.findings import FEWEST_PROMPTS, Findings
from rl.evaluation.lm_eval import TaskScores
from rl.evaluation.stats.intervals import mean_interval

FEWEST_ANSWERS = 2
"""That break a rate."""
BARE = 1 / 3
"""An answer says little that has less than this part of the words of their own that others' answers have on average."""
Finding = tuple[float | None, bool, str]
"""A rail's value, whether it is broken, and its text."""
PHRASE_WORDS = 4
"""Fewer are said to many questions in good answers too."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\s*\n\s*")
FEW = f"not measured: {FEWEST_PROMPTS} prompts tell, with answers that people prefer"


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


def hold(findings: Findings, limits: Mapping[str, float | None]) -> list[Rail]:
    """To the rails that have a place in ``limits``; None: it is shown, and has no limit."""
    return [
        _make_rail(name, examine(findings, limits[name]), limits[name])
        for name, examine in EXAMINERS.items()
        if name in limits
    ]


def hold_to_task(task: TaskScores | None, limit: float) -> Rail:
    return _make_rail("task_loss", _examine_task(task, limit), limit)


def _make_rail(name: str, finding: Finding, limit: float | None) -> Rail:
    value, broken, text = finding
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


def _degenerate(findings: Findings, limit: float) -> Finding:
    new = findings.new
    rate, count = new.rate(DEGENERATE), new.count(DEGENERATE)
    kinds = ", ".join(f"{kind} {new.count([kind])}" for kind in DEGENERATE if new.count([kind]))
    what = f"degenerate: {count} of {len(new.texts)} answers{f' ({kinds})' if kinds else ''}"
    text = f"{what}, {findings.current.count(DEGENERATE)} of the version in use"
    return rate, rate > limit and count >= FEWEST_ANSWERS, text


def _sameness(findings: Findings, limit: float) -> Finding:
    if len(findings.new.texts) < FEWEST_PROMPTS:
        return None, False, f"not measured: {FEWEST_PROMPTS} prompts tell"
    usual = [findings.current.texts, findings.preferred]
    share, of_others, what = most_overused(findings.new.texts, usual, by_words=findings.tells_of_people)
    text = f"{share:.0%} of the answers say {what[:60]!r}, {of_others:.0%} of others do"
    return share - of_others, share - of_others > limit, text


def _content(findings: Findings, limit: float) -> Finding:
    if not findings.tells_of_people:
        return _not_told(findings)
    new, *others = map(fmean, say_little(findings))
    shares = f"{new:.0%} of the answers say little of their own, {others[0]:.0%} in use, {others[1]:.0%} of those that"
    return new - max(others), new - max(others) > limit, f"{shares} people prefer"


def say_little(findings: Findings) -> list[list[bool]]:
    """Whether each answer does: of the new version, of the one in use, and of those that people prefer."""
    all_texts = (findings.new.texts, findings.current.texts, findings.preferred)
    counts = [own_words(texts, findings.questions) for texts in all_texts]
    usual = min(fmean(of_others) for of_others in counts[1:])
    return [[count < BARE * usual for count in of_model] for of_model in counts]


def _relevance(findings: Findings, limit: float) -> Finding:
    fit = findings.distance.fit if findings.distance else None
    if fit is None or not findings.tells_of_people:
        return _not_told(findings)
    loss = min(fit.base, fit.chosen) - fit.new
    others = f"{fit.base:.0%} of the base model's own, {fit.chosen:.0%} of those that people prefer"
    return loss, loss > limit, f"{fit.new:.0%} of the answers fit their question better than another one, {others}"


def _not_told(findings: Findings) -> Finding:
    kind = findings.kind
    return None, False, f"not measured: its answers are {kind.kind}" if kind.has_right_answers else FEW


def _off_kind(findings: Findings, limit: float) -> Finding:
    kind = findings.kind
    if not kind.has_right_answers:
        return None, False, "not measured: its answers are free"
    new, current = ([not kind.is_of_kind(text) for text in of.texts] for of in (findings.new, findings.current))
    more = fmean(new) - fmean(current)
    text = f"not {kind.kind}: {sum(new)} of {len(new)} answers, {sum(current)} of the version in use"
    return more, more > limit and sum(new) - sum(current) >= FEWEST_ANSWERS, text


def _length(findings: Findings, limit: float) -> Finding:
    """Broken when far from both, and not between them; the ratio to the nearer of the two, 1 between them. An answer of no
    length counts as one character."""
    new, compared = findings.new.length, {"of the version in use": findings.current.length}
    if findings.preferred:
        compared["of the preferred answers"] = fmean(len(text.strip()) for text in findings.preferred)
    ratios = [max(new, 1.0) / max(length, 1.0) for length in compared.values()]
    is_between = min(ratios) <= 1 <= max(ratios)  # on its way to what people prefer
    ratio = 1.0 if is_between else min(ratios, key=lambda ratio: abs(math.log(ratio)))
    lengths = ", ".join(f"{length:.0f} {what}" for what, length in compared.items())
    return ratio, not 1 / limit <= ratio <= limit, f"{new:.0f} characters on average, {lengths}"


def _rate(what: str, kinds: Sequence[str], findings: Findings, limit: float) -> Finding:
    new, current = findings.new, findings.current
    more = new.rate(kinds) - current.rate(kinds)
    broken = more > limit and new.count(kinds) - current.count(kinds) >= FEWEST_ANSWERS
    text = f"{what}: {new.count(kinds)} of {len(new.texts)} answers, {current.count(kinds)} of the version in use"
    return more, broken, text


def _unreadable(findings: Findings, limit: float) -> Finding:
    if not findings.has_format:
        return None, False, "no format is asked of its answers"
    return _rate("not in the format", NOT_READABLE, findings, limit)


def _reward(findings: Findings, limit: float) -> Finding:
    pairs = zip(findings.new.rewards, findings.current.rewards, strict=True)
    both = [(new, current) for new, current in pairs if new is not None and current is not None]
    if len(both) < 2:
        return None, False, "no reward applies to its answers"
    interval = mean_interval({str(number): [new - current] for number, (new, current) in enumerate(both)})
    of_new, of_current = (fmean(rewards) for rewards in zip(*both, strict=True))
    loss = of_current - of_new
    broken = loss > limit and interval is not None and interval.high < 0
    return loss, broken, f"mean reward {of_new:.3f}, {of_current:.3f} in use, {len(both)} answers"


def _divergence(findings: Findings, limit: float | None) -> Finding:
    if findings.distance is None:
        return None, False, "not measured"
    text = f"{findings.distance.kl:.2f} nats a token from the base model"
    return _at_most(findings.distance.kl, limit, text, "the divergence from the base model")


def _likeliness(findings: Findings, limit: float) -> Finding:
    chosen = findings.chosen
    if chosen is None:
        return None, False, "not measured: no preferred answers are held out"
    text = f"{chosen.value:+.2f} nats a token of held-out preferred answers ({chosen.low:+.2f} to {chosen.high:+.2f})"
    return -chosen.value, -chosen.value > limit and chosen.high < 0, text


def _unlikeliness(findings: Findings, limit: float) -> Finding:
    """``off_kind_rate`` tells more of answers that have right ones: which of a set one is says nothing of how likely it
    is."""
    distance = findings.distance
    if findings.kind.has_right_answers:
        return _not_told(findings)
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


def _examine_task(task: TaskScores | None, limit: float) -> Finding:
    if task is None:
        return None, False, "no task was named"
    loss = task.current - task.new
    broken = loss > limit and task.difference is not None and task.difference.high < 0
    return loss, broken, f"{task.metric} of {task.name} {task.new:.3f}, {task.current:.3f} in use, {task.rows} rows"


EXAMINERS: Final[dict[str, Callable[[Findings, Any], Finding]]] = {
    "degenerate_rate": _degenerate,
    "sameness": _sameness,
    "content": _content,
    "relevance": _relevance,
    "off_kind_rate": _off_kind,
    "length_ratio": _length,
    "empty_rate": partial(_rate, "empty", ("empty",)),
    "refusal_rate": partial(_rate, "refusals", ("refusal",)),
    "parse_error_rate": _unreadable,
    "reward_loss": _reward,
    "kl_to_base": _divergence,
    "chosen_likelihood": _likeliness,
    "base_likelihood": _unlikeliness,
    "task_loss": lambda findings, limit: _examine_task(findings.task, limit),
}


def most_overused(texts: Sequence[str], usual: Sequence[Sequence[str]], *, by_words: bool) -> tuple[float, float, str]:
    """The share of texts that have one thing in common, the largest share of those of ``usual`` that have it, and what it
    is: of all that they say, what is furthest above the usual. A sentence of some words, or the whole text; ``by_words``: or
    any PHRASE_WORDS words in a row."""
    counted = _count(texts, by_words)
    others = [(_count(of_other, by_words), len(of_other)) for of_other in usual if of_other]

    def share_of_others(phrase: str) -> float:
        return max((counts[phrase] / size for counts, size in others), default=0.0)

    if not counted:
        return 0.0, 0.0, ""
    excess = {phrase: times / len(texts) - share_of_others(phrase) for phrase, times in counted.items()}
    most = max(excess, key=lambda phrase: (excess[phrase], len(phrase)))
    return counted[most] / len(texts), share_of_others(most), most


def _count(texts: Sequence[str], by_words: bool) -> Counter[str]:
    """Texts that have each phrase."""
    return Counter(chain.from_iterable(set(_phrases(text, by_words)) for text in texts))


def _phrases(text: str, by_words: bool) -> Iterator[str]:
    if text.strip():
        yield text.strip()
    yield from (part.strip() for part in _SENTENCE.split(text) if len(part.split()) >= PHRASE_WORDS)
    if by_words:
        words = words_of(text)
        yield from (" ".join(words[at : at + PHRASE_WORDS]) for at in range(len(words) - PHRASE_WORDS + 1))


def own_words(texts: Sequence[str], questions: Sequence[str]) -> list[int]:
    """How many different words each text has that no other has and no question asks for: what it says of its own."""
    asked = set(chain.from_iterable(map(words_of, questions)))
    by_text = [set(words_of(text)) - asked for text in texts]
    texts_with = Counter(chain.from_iterable(by_text))
    return [sum(texts_with[word] == 1 for word in words) for words in by_text]
