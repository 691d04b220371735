"""How much reward a version's answers to held-out prompts earn, beside those of its base model and the version in use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from rl.data_formatter.fresh import fresh_trace
from rl.data_formatter.pairing import stable_hash
from rl.evaluation import SCORERS
from rl.evaluation.gate import REWARD, Verdict, Words, decide_means
from rl.evaluation.statistics import mean_interval
from rl.leaves import leaf
from rl.records import GeneratedAnswer, Interval, Report, Scorer

MOST_PROMPTS = 200
"""Generating takes long; more prompts are thinned out by a hash."""
WORST_EXAMPLES = 10
MODELS = ("new", "base", "current")
Row = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Contest:
    """Who answers: the new version, its base model and the version in use (None: the base model stands for it)."""

    base_model: str
    weights: Path
    """An adapter, or a whole model."""
    current: tuple[str, Path] | None
    """Base model and weights."""
    max_length: int
    max_new_tokens: int


@dataclass(frozen=True, slots=True)
class Earned:
    """Held-out prompts whose answers all have a reward; the lists are in the same order."""

    rows: list[Row]
    answers: dict[str, list[str]]
    """Of each of MODELS."""
    rewards: dict[str, list[float]]
    unscored: int
    """Prompts that leave no room for an answer, or with an answer that no reward applies to."""

    def mean(self, model: str) -> float:
        return fmean(self.rewards[model]) if self.rows else 0.0


def earned(contest: Contest, rows: Sequence[Row], scorer: Scorer, report: Report) -> Earned:
    """Loads each base model once. Raises RewardFailed when a reward breaks."""
    asked = sorted(rows, key=lambda row: stable_hash(row["prompt_key"]))[:MOST_PROMPTS]
    if not asked:
        return Earned([], {name: [] for name in MODELS}, {name: [] for name in MODELS}, 0)
    answers = _answers(contest, asked, report)
    report("stage", {"name": "rewarding the answers"})
    rewards = {
        name: [_reward(scorer, row, answer) for row, answer in zip(asked, of_one, strict=True)]
        for name, of_one in answers.items()
    }
    answers.setdefault("current", answers["base"])
    rewards.setdefault("current", rewards["base"])
    whole = [place for place in range(len(asked)) if all(rewards[name][place] is not None for name in MODELS)]
    return Earned(
        rows=[asked[place] for place in whole],
        answers={name: [answer.text for place in whole if (answer := answers[name][place])] for name in MODELS},
        rewards={name: [value for place in whole if (value := rewards[name][place]) is not None] for name in MODELS},
        unscored=len(asked) - len(whole),
    )


def _answers(contest: Contest, rows: Sequence[Row], report: Report) -> dict[str, list[GeneratedAnswer | None]]:
    generate = leaf(SCORERS["reward"]).answer_versions
    most = {"max_length": contest.max_length, "max_new_tokens": contest.max_new_tokens, "report": report}
    return of_each(contest, lambda base, compared: generate(base, compared, rows, **most))


def of_each(contest: Contest, ask: Callable[[str, dict[str, Path | None]], dict[str, list[T]]]) -> dict[str, list[T]]:
    """What ``ask`` finds for a base model and the weights that are compared on it; it is called once for each base model.
    There is no "current" where no version is in use."""
    compared: dict[str, Path | None] = {"base": None, "new": contest.weights}
    other = contest.current
    if other and other[0] == contest.base_model:
        compared["current"] = other[1]
    found = ask(contest.base_model, compared)
    if other and other[0] != contest.base_model:
        found |= ask(other[0], {"current": other[1]})
    return found


def _reward(scorer: Scorer, row: Row, answer: GeneratedAnswer | None) -> float | None:
    return scorer(fresh_trace(row, answer.text, answer.tokens_in, answer.tokens_out)).value if answer else None


def judge(found: Earned, held_out_share: float, words: Words = REWARD) -> Verdict:
    changes = [new - old for new, old in zip(found.rewards["new"], found.rewards["current"], strict=True)]
    return decide_means(changes, held_out_share=held_out_share, most_prompts=MOST_PROMPTS, words=words)


def describe(found: Earned, verdict: Verdict, measure: str = "reward") -> dict[str, Any]:
    """What the report page and ``--output`` show."""
    return {
        "measure": measure,
        "reason": verdict.reason,
        "difference": asdict(verdict.difference),
        "models": {name: {"reward": asdict(_interval(found.rewards[name]))} for name in MODELS},
        "unscored": found.unscored,
        "worst": _worst(found),
    }


def _interval(rewards: Sequence[float]) -> Interval:
    """Within [0, 1]: rewards are."""
    found = mean_interval({str(number): [value] for number, value in enumerate(rewards)})
    if found is None:
        return Interval(fmean(rewards) if rewards else 0.0, 0.0, 1.0)
    return Interval(found.value, max(0.0, found.low), min(1.0, found.high))


def _worst(found: Earned) -> list[dict[str, Any]]:
    """Where the new version earns least, compared with the one in use."""
    new, current = found.rewards["new"], found.rewards["current"]
    ranked = sorted(range(len(found.rows)), key=lambda place: (new[place] - current[place], new[place]))
    return [
        {
            "prompt": found.rows[place]["prompt"][-1]["content"],
            "answer": found.answers["new"][place],
            "reward": new[place],
            "answer_in_use": found.answers["current"][place],
            "reward_in_use": current[place],
        }
        for place in ranked[:WORST_EXAMPLES]
    ]
