"""Single answers with a number: with their reward, for any tool that reads it, and with a score, for a reward model, whose
held-out rows are contrasts: pairs as they are, and scored answers matched with each other."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from rl.base.messages import tools_of
from rl.base.records import JudgedAnswer
from rl.data_formatter.labelled import NO_LABEL, LabelRule, feedback_behind_reward, is_sure, row_of
from rl.data_formatter.opinions import BROKEN_OFF, EMPTY_ANSWER, LOW_CONFIDENCE, stable_hash
from rl.data_formatter.runs import answer_messages

NO_REWARD = "no reward yet"
MIDDLE = 0.5
"""A broken-off answer that is not worse is in no row."""
DIGITS = 6
"""Decimal places of a reward in a row: what means and floating point add behind them is noise."""


def scored_row(answer: JudgedAnswer, skipped: Counter[str]) -> dict[str, Any] | None:
    """None: left out, and the reason counted."""
    if (reward := usable_reward(answer, skipped)) is None:
        return None
    columns = {"completion": answer_messages(answer.response, answer.steps)}
    return row_of(answer, columns, feedback_behind_reward(answer), reward=round(reward, DIGITS))


def usable_reward(answer: JudgedAnswer, skipped: Counter[str]) -> float | None:
    if answer.reward is None:
        skipped[NO_REWARD] += 1
    elif not answer.response.strip():
        skipped[EMPTY_ANSWER] += 1
    elif answer.is_broken_off and answer.reward >= MIDDLE:
        skipped[BROKEN_OFF] += 1
    else:
        return answer.reward
    return None


@dataclass(frozen=True, slots=True)
class Score:
    value: float
    """0 to 1."""
    source: Literal["person", "reward", "proposed"]
    feedback_ids: tuple[int, ...] = ()
    """That it rests on."""


def score_of(answer: JudgedAnswer, rule: LabelRule, skipped: Counter[str]) -> Score | None:
    """People's mean rating, but for ratings that the reward counts already, else the reward, else how likely a sure proposal
    finds the answer good. None where nothing tells; the reason is counted.

    Unlike a label, a score may lie in the middle: that is what people gave."""
    counted = () if answer.reward is None else answer.in_reward
    if ratings := [rating for rating in answer.ratings if rating.feedback_id not in counted]:
        values = [rating.value for rating in ratings]
        # The share of the raters on the side of the larger number; those in the middle of the scale are on neither.
        up, down = sum(value > 0.5 for value in values), sum(value < 0.5 for value in values)
        if up + down and max(up, down) / (up + down) < rule.min_confidence:
            skipped[LOW_CONFIDENCE] += 1
            return None
        return Score(fmean(values), "person", tuple(rating.feedback_id for rating in ratings))
    if answer.reward is not None:
        return Score(answer.reward, "reward", feedback_behind_reward(answer))
    if answer.proposed and is_sure(answer.proposed[1], rule):
        good, confidence = answer.proposed
        return Score(confidence if good else 1 - confidence, "proposed")
    skipped[NO_LABEL] += 1
    return None


def single_row(answer: JudgedAnswer, rule: LabelRule, skipped: Counter[str]) -> dict[str, Any] | None:
    """A scored answer that stands alone, as a reward model learns from it. None: left out, and the reason counted."""
    if not answer.response.strip():
        skipped[EMPTY_ANSWER] += 1
        return None
    score = score_of(answer, rule, skipped)
    if score and score.value >= MIDDLE and answer.is_broken_off:
        skipped[BROKEN_OFF] += 1
        return None
    if score is None:
        return None
    columns = {"completion": answer_messages(answer.response, answer.steps)}
    value = round(score.value, DIGITS)
    return row_of(answer, columns, score.feedback_ids, score=value, score_source=score.source)


Row = Mapping[str, Any]


def of_scores(rows: Iterable[Row]) -> list[Row]:
    """Pairs first. Of a prompt without a pair the best answer with the worst, where their scores differ; then the answers to
    two prompts with different scores. Each prompt is in one match, so matches are independent.

    A match has ``scores``, of the better and the worse answer, and a ``rejected_prompt`` where it is of two prompts."""
    pairs: list[Row] = []
    prompts: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if "score" in row:
            prompts[row["prompt_key"]].append(row)
        else:
            pairs.append(row)
    for pair in pairs:
        prompts.pop(pair["prompt_key"], None)
    extremes = {key: _worst_and_best(answers) for key, answers in prompts.items()}
    within = [_match(best, worst) for worst, best in extremes.values() if best["score"] > worst["score"]]
    level = [worst for worst, best in extremes.values() if best["score"] == worst["score"]]
    return [*pairs, *within, *_across(level)]


def _worst_and_best(answers: Sequence[Row]) -> tuple[Row, Row]:
    """The same one where all scores are equal."""
    ranked = sorted(answers, key=lambda row: (row["score"], stable_hash(row["completion"][-1]["content"])))
    return ranked[0], ranked[-1] if ranked[-1]["score"] > ranked[0]["score"] else ranked[0]


def _across(answers: Sequence[Row]) -> Iterator[Row]:
    """The lower half of the answers with the upper half: as many matches as any way makes, of scores far apart. A hash
    orders equal scores, which has nothing to do with what the prompts say."""
    ranked = sorted(answers, key=lambda row: (row["score"], stable_hash(row["prompt_key"])))
    half = (len(ranked) + 1) // 2
    for worse, better in zip(ranked[: len(ranked) - half], ranked[half:], strict=True):
        if better["score"] > worse["score"]:
            yield _match(better, worse)


def _match(better: Row, worse: Row) -> Row:
    match = {
        **tools_of(better),
        "prompt": better["prompt"],
        "chosen": better["completion"],
        "rejected": worse["completion"],
        "prompt_key": better["prompt_key"],
        "feedback": sorted({*better.get("feedback", ()), *worse.get("feedback", ())}),
        "scores": [better["score"], worse["score"]],
    }
    return match if worse["prompt"] == better["prompt"] else {**match, "rejected_prompt": worse["prompt"]}
