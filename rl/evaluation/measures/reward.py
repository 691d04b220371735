"""How much reward a version's answers to held-out prompts earn, beside those of its base model and the version in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from rl.base.leaves import leaf
from rl.base.records import GeneratedAnswer, Interval, Report, Scorer
from rl.data_formatter.fresh import fresh_trace
from rl.data_formatter.pairing import stable_hash
from rl.evaluation import SCORERS, evidence
from rl.evaluation.contest import MODELS, Contest, of_each
from rl.evaluation.gate import REWARD, Verdict, Words, decide_means
from rl.evaluation.stats.intervals import mean_interval

MOST_PROMPTS = 200
"""Generating takes long; more prompts are thinned out by a hash."""
WORST_EXAMPLES = 10
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Earned:
    """Held-out prompts whose answers all have a reward; the lists are in the same order."""

    rows: list[Row]
    answers: dict[str, list[str]]
    """Of each of MODELS."""
    rewards: dict[str, list[float]]
    unscored: int
    """Prompts that leave no room for an answer, or with an answer that no reward applies to."""

    @property
    def changes(self) -> list[float]:
        """Of each prompt, from the version in use to the new one."""
        return [new - old for new, old in zip(self.rewards["new"], self.rewards["current"], strict=True)]

    def mean(self, model: str) -> float:
        return fmean(self.rewards[model]) if self.rows else 0.0


def earned(contest: Contest, rows: Sequence[Row], scorer: Scorer, report: Report, also: Any = None) -> Earned:
    """Loads each base model once; ``also`` is called for each model while it is loaded. Raises RewardFailed when a reward
    breaks."""
    asked = sorted(rows, key=lambda row: stable_hash(row["prompt_key"]))[:MOST_PROMPTS]
    if not asked:
        return Earned([], {name: [] for name in MODELS}, {name: [] for name in MODELS}, 0)
    answers = _answers(contest, asked, report, also)
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


def _answers(
    contest: Contest, rows: Sequence[Row], report: Report, also: Any
) -> dict[str, list[GeneratedAnswer | None]]:
    generate = leaf(SCORERS["reward"]).answer_versions
    most = {"max_length": contest.max_length, "max_new_tokens": contest.max_new_tokens, "report": report, "also": also}
    return of_each(contest, lambda base, compared: generate(base, compared, rows, **most))


def _reward(scorer: Scorer, row: Row, answer: GeneratedAnswer | None) -> float | None:
    return scorer(fresh_trace(row, answer.text, answer.tokens_in, answer.tokens_out)).value if answer else None


def judge(found: Earned, held_out_share: float, words: Words = REWARD, margin: float = 0.0) -> Verdict:
    return decide_means(
        found.changes, held_out_share=held_out_share, most_prompts=MOST_PROMPTS, words=words, margin=margin
    )


def describe(found: Earned, verdict: Verdict, measure: str = "reward", margin: float = 0.0) -> dict[str, Any]:
    """What the report page and ``--output`` show."""
    beside = evidence.of_shares if measure == "success" else evidence.of_means
    return {
        "measure": measure,
        "reason": verdict.reason,
        "difference": asdict(verdict.difference),
        **beside(found.changes, margin),
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
