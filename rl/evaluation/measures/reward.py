"""How much reward a version's answers to held-out prompts earn, beside those of its base model and the version in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from rl.base.leaves import leaf
from rl.base.measurements import Interval
from rl.base.records import GeneratedAnswer, Report, Scorer
from rl.data_formatter.fresh import fresh_trace
from rl.data_formatter.opinions import stable_hash
from rl.evaluation import SCORERS, evidence
from rl.evaluation.contest import MODELS, Contest, of_each
from rl.evaluation.gate import Verdict, decide_means
from rl.evaluation.stats.budget import ONCE, Look
from rl.evaluation.stats.intervals import mean_interval
from rl.evaluation.wording import REWARD, Words

MOST_PROMPTS = 200
"""Generating takes long; more prompts are thinned out by a hash."""
WORST_EXAMPLES = 10
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Earnings:
    """Held-out prompts whose answers all have a reward; the lists are in the same order."""

    rows: list[Row]
    answers: dict[str, list[str]]
    """The answers of each of MODELS."""
    rewards: dict[str, list[float]]
    unscored: int
    """Prompts that leave no room for an answer, or with an answer that no reward applies to."""

    @property
    def changes(self) -> list[float]:
        """How much more reward each prompt earns from the new version than from the one in use."""
        return [new - old for new, old in zip(self.rewards["new"], self.rewards["current"], strict=True)]

    def mean(self, model: str) -> float:
        return fmean(self.rewards[model]) if self.rows else 0.0


def compare(contest: Contest, rows: Sequence[Row], scorer: Scorer, report: Report, also: Any = None) -> Earnings:
    """Loads each base model once; ``also`` is called for each model while it is loaded. Raises RewardFailed when a reward
    breaks."""
    candidates = sorted(rows, key=lambda row: stable_hash(row["prompt_key"]))[:MOST_PROMPTS]
    if not candidates:
        return Earnings([], {name: [] for name in MODELS}, {name: [] for name in MODELS}, 0)
    answers = _answers(contest, candidates, report, also)
    report("stage", {"name": "rewarding the answers"})
    rewards = {
        name: [_reward(scorer, row, answer) for row, answer in zip(candidates, of_model, strict=True)]
        for name, of_model in answers.items()
    }
    answers.setdefault("current", answers["base"])
    rewards.setdefault("current", rewards["base"])
    rewarded = [
        position for position in range(len(candidates)) if all(rewards[name][position] is not None for name in MODELS)
    ]
    return Earnings(
        rows=[candidates[position] for position in rewarded],
        answers={
            name: [answer.text for position in rewarded if (answer := answers[name][position])] for name in MODELS
        },
        rewards={
            name: [value for position in rewarded if (value := rewards[name][position]) is not None] for name in MODELS
        },
        unscored=len(candidates) - len(rewarded),
    )


def _answers(
    contest: Contest, rows: Sequence[Row], report: Report, also: Any
) -> dict[str, list[GeneratedAnswer | None]]:
    generate = leaf(SCORERS["reward"]).answer_versions
    most = {"max_length": contest.max_length, "max_new_tokens": contest.max_new_tokens, "report": report, "also": also}
    return of_each(contest, lambda base, compared: generate(base, compared, rows, **most))


def _reward(scorer: Scorer, row: Row, answer: GeneratedAnswer | None) -> float | None:
    return scorer(fresh_trace(row, answer.text, answer.tokens_in, answer.tokens_out)).value if answer else None


def judge(
    earnings: Earnings, held_out_share: float, words: Words = REWARD, margin: float = 0.0, look: Look = ONCE
) -> Verdict:
    return decide_means(
        earnings.changes,
        held_out_share=held_out_share,
        most_prompts=MOST_PROMPTS,
        words=words,
        margin=margin,
        look=look,
    )


def describe_columns(earnings: Earnings, verdict: Verdict) -> dict[str, Any]:
    """The fields of an Evaluation without its report."""
    return {
        "pairs": len(earnings.rows),
        "prompts": len(earnings.rows),
        "accuracy": earnings.mean("new"),
        "base_accuracy": earnings.mean("base"),
        "against_accuracy": earnings.mean("current"),
        "verdict": verdict.decision,
        "ratings_needed": verdict.ratings_needed,
    }


def describe(earnings: Earnings, verdict: Verdict, measure: str = "reward", margin: float = 0.0) -> dict[str, Any]:
    """What the report page and ``--output`` show."""
    describe_evidence = evidence.of_means if measure == "reward" else evidence.of_shares
    return {
        "measure": measure,
        "reason": verdict.reason,
        "difference": asdict(verdict.difference),
        **describe_evidence(earnings.changes, margin),
        "models": {name: {"reward": asdict(_interval(earnings.rewards[name]))} for name in MODELS},
        "unscored": earnings.unscored,
        "worst": _worst(earnings),
    }


def _interval(rewards: Sequence[float]) -> Interval:
    """Within [0, 1]: rewards are."""
    interval = mean_interval({str(number): [value] for number, value in enumerate(rewards)})
    if interval is None:
        return Interval(fmean(rewards) if rewards else 0.0, 0.0, 1.0)
    return Interval(interval.value, max(0.0, interval.low), min(1.0, interval.high))


def _worst(earnings: Earnings) -> list[dict[str, Any]]:
    """Where the new version earns least, compared with the one in use."""
    new, current = earnings.rewards["new"], earnings.rewards["current"]
    ranked = sorted(range(len(earnings.rows)), key=lambda position: (new[position] - current[position], new[position]))
    return [
        {
            "prompt": earnings.rows[position]["prompt"][-1]["content"],
            "answer": earnings.answers["new"][position],
            "reward": new[position],
            "answer_in_use": earnings.answers["current"][position],
            "reward_in_use": current[position],
        }
        for position in ranked[:WORST_EXAMPLES]
    ]
