"""Preference pairs from rated answers and from stated preferences (side-by-side picks, edited answers).

Answers with the same text, for which the same was done, are one answer: their votes add up, and the majority decides whether
it was liked. Liked against disliked gives one statement "this answer rather than that one", each stated preference another.
Statements about the same two answers are then weighed against each other: the majority wins, and a draw is a contradiction
that teaches nothing."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rl.base.records import DirectPreference, Message, PreferencePair, RatedAnswer
from rl.data_formatter.opinions import (
    CONTRADICTION,
    DUPLICATE,
    EMPTY_ANSWER,
    LOW_CONFIDENCE,
    OUTVOTED,
    OVER_LIMIT,
    SAME_TEXT,
    MergedOpinion,
    PairLimits,
    best_pairs,
    count_one_sided,
    group_answers,
    metadata,
    opinions,
    split,
    stable_hash,
)
from rl.data_formatter.runs import answer_key, prompt_messages


@dataclass(frozen=True, slots=True)
class _Side:
    """An answer as it was written, with what was done before it."""

    text: str
    steps: tuple[Message, ...] = ()

    @property
    def key(self) -> str:
        return answer_key(self.text, self.steps)


@dataclass(frozen=True, slots=True)
class _Statement:
    prompt: tuple[Message, ...]
    chosen: _Side
    rejected: _Side
    confidence: float
    feedback_ids: frozenset[int]
    tools: tuple[Mapping[str, Any], ...] = ()
    weight: float = 1.0

    @property
    def order(self) -> tuple[str, str]:
        return self.chosen.key, self.rejected.key


@dataclass(frozen=True, slots=True)
class _Agreed:
    """What the statements about two texts come to."""

    statement: _Statement
    count: int
    """Statements that say so."""
    confidence: float
    feedback_ids: frozenset[int]

    @property
    def rank(self) -> tuple[float, int, int]:
        return (-self.confidence, -self.count, stable_hash("\0".join(self.statement.order)))


def build_preference_pairs(
    answers: Iterable[RatedAnswer],
    direct: Iterable[DirectPreference] = (),
    *,
    max_pairs_per_question: int = 5,
    min_confidence: float = 0.5,
    skipped: Counter[str] | None = None,
) -> list[PreferencePair]:
    """Sorted by prompt key; the same pairs whatever the order in which answers and preferences come."""
    options = PairLimits(max_pairs_per_question, min_confidence)
    skipped = Counter() if skipped is None else skipped
    rated = dict(group_answers(answers, lambda answer: answer.prompt_key))
    stated: defaultdict[str, list[DirectPreference]] = defaultdict(list)
    for preference in direct:
        stated[preference.prompt_key].append(preference)
    pairs: list[PreferencePair] = []
    for key in sorted(rated.keys() | stated.keys()):
        pairs += _pairs_of_prompt(key, rated.get(key, []), stated.get(key, []), options, skipped)
    return pairs


def _pairs_of_prompt(
    key: str,
    answers: Sequence[RatedAnswer],
    direct: Sequence[DirectPreference],
    options: PairLimits,
    skipped: Counter[str],
) -> Iterator[PreferencePair]:
    liked, disliked = split(opinions(_not_empty(answers, skipped), _key, options, skipped))
    statements = list(_direct_statements(direct, skipped))
    if not statements:
        count_one_sided(liked, disliked, skipped)
    rated, left_over = _rated_statements(liked, disliked, statements, options.max_pairs_per_question)
    if statements:
        groups: defaultdict[frozenset[str], list[_Statement]] = defaultdict(list)
        for statement in (*statements, *rated):
            groups[frozenset(statement.order)].append(statement)
        agreed = [sum_up for texts in groups.values() for sum_up in _weigh(texts, options, skipped)]
    else:  # no two of them are about the same texts
        agreed = [_Agreed(statement, 1, statement.confidence, statement.feedback_ids) for statement in rated]
    if len(agreed) > 1:
        agreed.sort(key=lambda statement: statement.rank)
    if over := left_over + max(0, len(agreed) - options.max_pairs_per_question):
        skipped[OVER_LIMIT] += over
    return (_pair(key, statement) for statement in agreed[: options.max_pairs_per_question])


def _not_empty(answers: Iterable[RatedAnswer], skipped: Counter[str]) -> Iterator[RatedAnswer]:
    seen = set()
    for answer in answers:
        if not answer.response.strip():
            skipped[EMPTY_ANSWER] += 1
            continue
        if (key := _key(answer)) in seen:
            skipped[DUPLICATE] += 1  # its votes still count
        seen.add(key)
        yield answer


def _key(answer: RatedAnswer) -> str:
    return answer_key(answer.response, answer.steps)


def _direct_statements(direct: Iterable[DirectPreference], skipped: Counter[str]) -> Iterator[_Statement]:
    for preference in direct:
        chosen = _Side(preference.chosen, preference.chosen_steps)
        rejected = _Side(preference.rejected, preference.rejected_steps)
        if not chosen.text.strip() or not rejected.text.strip():
            skipped[EMPTY_ANSWER] += 1
        elif chosen.key == rejected.key:
            skipped[SAME_TEXT] += 1
        else:
            feedback_ids = frozenset((preference.feedback_id,))
            yield _Statement(
                preference.prompt, chosen, rejected, 1.0, feedback_ids, preference.tools, preference.weight
            )


def _rated_statements(
    liked: list[MergedOpinion], disliked: list[MergedOpinion], direct: Sequence[_Statement], limit: int
) -> tuple[list[_Statement], int]:
    """The surest of liked against disliked, and those that have a say about texts compared directly; how many are left."""
    up, down = ({opinion.key: opinion for opinion in side} for side in (liked, disliked))
    pairs = {(first.key, second.key): (first, second) for first, second in best_pairs(liked, disliked, limit)}
    for statement in direct:
        for first, second in (statement.order, statement.order[::-1]):
            if first in up and second in down:
                pairs[first, second] = (up[first], down[second])
    return [_rated_statement(*pair) for pair in pairs.values()], len(liked) * len(disliked) - len(pairs)


def _rated_statement(up: MergedOpinion, down: MergedOpinion) -> _Statement:
    best, worst = up.answers[0], down.answers[0]
    confidence = min(up.confidence, down.confidence)
    feedback_ids = frozenset(up.feedback_ids | down.feedback_ids)
    chosen, rejected = (_Side(answer.response, answer.steps) for answer in (best, worst))
    return _Statement(best.prompt, chosen, rejected, confidence, feedback_ids, best.tools)


def _weigh(statements: list[_Statement], options: PairLimits, skipped: Counter[str]) -> Iterator[_Agreed]:
    """At most one. Its confidence is the mean over all statements of what each says of the winner."""
    statements.sort(key=_canonical)
    one_way = [statement for statement in statements if statement.order == statements[0].order]
    other_way = [statement for statement in statements if statement.order != statements[0].order]
    if math.isclose(_weight(one_way), _weight(other_way)):
        skipped[CONTRADICTION] += len(statements)
        return
    winners, losers = sorted((one_way, other_way), key=_weight, reverse=True)
    support = sum(statement.weight * statement.confidence for statement in winners)
    support += sum(statement.weight * (1 - statement.confidence) for statement in losers)
    confidence = support / _weight(statements)
    if losers:
        skipped[OUTVOTED] += len(losers)
    if confidence < options.min_confidence:
        skipped[LOW_CONFIDENCE] += 1
        return
    if len(winners) > 1:
        skipped[DUPLICATE] += len(winners) - 1
    feedback_ids = frozenset().union(*(statement.feedback_ids for statement in winners))
    yield _Agreed(winners[0], len(winners), confidence, feedback_ids)


def _weight(statements: Iterable[_Statement]) -> float:
    return sum(statement.weight for statement in statements)


def _canonical(statement: _Statement) -> tuple[str, str, str, str, list[int]]:
    texts = (statement.chosen.text, statement.rejected.text)
    return *texts, *statement.order, sorted(statement.feedback_ids)


def _pair(key: str, agreed: _Agreed) -> PreferencePair:
    statement = agreed.statement
    details = metadata("preference", agreed.confidence, agreed.feedback_ids, count=agreed.count)
    return PreferencePair(
        prompt_messages(statement.prompt),
        statement.chosen.text,
        statement.rejected.text,
        key,
        None,
        details,
        list(statement.chosen.steps) or None,
        list(statement.rejected.steps) or None,
        [dict(tool) for tool in statement.tools] or None,
    )
