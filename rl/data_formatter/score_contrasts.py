"""The held-out rows of a reward model as contrasts: pairs as they are, and scored answers matched with each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rl.base.messages import tools_of
from rl.data_formatter.opinions import stable_hash

Row = Mapping[str, Any]


def of_scores(rows: Iterable[Row]) -> list[Row]:
    """Pairs first. Of a prompt without a pair the best answer with the worst, where their scores differ; then the answers to
    two prompts with different scores. Each prompt is in one match, so matches are independent.

    A match has ``scores``, of the better and the worse answer, and a ``rejected_prompt`` where it is of two prompts.
    """
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
