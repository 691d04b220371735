"""How much reward a version's answers to held-out prompts earn, and how many held-out tasks it solves, beside its base model
and the version in use."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from rl.base.leaves import leaf
from rl.base.measurements import Interval
from rl.base.records import GeneratedAnswer, Report, Scorer
from rl.config import AgentConfig
from rl.data_formatter.fresh import fresh_trace
from rl.data_formatter.opinions import stable_hash
from rl.environments.episode import PlayedEpisode
from rl.evaluation import COMPARED, MODELS, SCORERS, Contest, of_each
from rl.evaluation.gate import FIELDS, REWARD, RIGHT, SUCCESS, Verdict, decide_means
from rl.evaluation.groups import Groups, of_changes
from rl.evaluation.guards.measure import Guards
from rl.evaluation.stats.intervals import mean_interval
from rl.evaluation.subject import Measured, Subject, evaluation_fields

MOST_PROMPTS = 200
"""Generating takes long; more prompts are thinned out by a hash."""
WORST_EXAMPLES = 10
_WORDS = {"reward": REWARD, "success": SUCCESS, "fields": FIELDS, "right": RIGHT}
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
    candidates = thin_out(rows)
    if not candidates:
        return earn([], {}, {})
    generate = leaf(SCORERS["reward"]).answer_versions
    most = {"max_length": contest.max_length, "max_new_tokens": contest.max_new_tokens, "report": report, "also": also}
    answers: dict[str, list[GeneratedAnswer | None]] = of_each(
        contest, lambda base, manner, compared: generate(base, compared, candidates, manner=manner, **most)
    )
    report("stage", {"name": "rewarding the answers"})

    def reward(row: Row, answer: GeneratedAnswer | None) -> float | None:
        return scorer(fresh_trace(row, answer.text, answer.tokens_in, answer.tokens_out)).value if answer else None

    return earn_by_answers(candidates, answers, reward)


def compare_success(contest: Contest, rows: Sequence[Row], config: AgentConfig, report: Report) -> Earnings:
    """The reward is 1 for a task that is solved, else 0; the answers are what was said last. Tasks whose world broke under
    one of the models are not counted. Loads each base model once."""
    candidates = thin_out(rows)
    if not candidates:
        return earn([], {}, {})
    tasks, solve = [row["task"] for row in candidates], leaf(SCORERS["success"]).solve_versions
    episodes: dict[str, list[PlayedEpisode]] = of_each(
        contest, lambda base, manner, compared: solve(base, compared, tasks, config.with_manner(manner), report)
    )
    solved = {
        name: [None if episode.reward is None else float(episode.success) for episode in of_model]
        for name, of_model in episodes.items()
    }
    said_last = {name: [episode.answer for episode in of_model] for name, of_model in episodes.items()}
    return earn(candidates, said_last, solved)


def thin_out(rows: Iterable[Row]) -> list[Row]:
    """MOST_PROMPTS of them, in an order that has nothing to do with what they say."""
    return sorted(rows, key=lambda row: stable_hash(row["prompt_key"]))[:MOST_PROMPTS]


def earn_by_answers(
    rows: Sequence[Row],
    answers: Mapping[str, Sequence[GeneratedAnswer | None]],
    reward: Callable[[Row, GeneratedAnswer | None], float | None],
) -> Earnings:
    """``answers``: of the models, in the order of the rows."""
    texts = {name: [answer.text if answer else "" for answer in of_model] for name, of_model in answers.items()}
    return earn(rows, texts, {name: list(map(reward, rows, of_model)) for name, of_model in answers.items()})


def earn(rows: Sequence[Row], answers: dict[str, list[str]], rewards: dict[str, list[Any]]) -> Earnings:
    """Rows without a reward of one of the models, a None, are left out. Where no version is in use, the base model stands
    for it."""
    answers, rewards = ({"current": by_model.get("base", []), **by_model} for by_model in (answers, rewards))
    kept = [at for at in range(len(rows)) if all(rewards[name][at] is not None for name in MODELS)]
    return Earnings(
        [rows[at] for at in kept],
        {name: [answers[name][at] for at in kept] for name in MODELS},
        {name: [rewards[name][at] for at in kept] for name in MODELS},
        len(rows) - len(kept),
    )


def judge(earnings: Earnings, measure: str, held_out_share: float, subject: Subject) -> tuple[Verdict, Groups]:
    """With how each group does, which may hold a promotion back."""
    agent, words, changes = subject.agent, _WORDS[measure], earnings.changes
    groups = of_changes(agent, [row["prompt_key"] for row in earnings.rows], changes, words)
    verdict = decide_means(
        changes,
        held_out_share=held_out_share,
        most_prompts=MOST_PROMPTS,
        words=words,
        margin=agent.gate_margin,
        look=subject.look,
    )
    return groups.over(verdict), groups


def describe(earnings: Earnings, verdict: Verdict, measure: str, margin: float, guards: Guards) -> Measured:
    """``verdict``: with a say of the guard rails."""
    # where the new version earns least, compared with the one in use
    new, current = earnings.rewards["new"], earnings.rewards["current"]
    ranked = sorted(range(len(earnings.rows)), key=lambda at: (new[at] - current[at], new[at]))
    report = {
        "measure": measure,
        "reason": verdict.reason,
        "difference": asdict(verdict.difference),
        "margin": margin,
        "models": {name: {"reward": asdict(_interval(earnings.rewards[name]))} for name in MODELS},
        "unscored": earnings.unscored,
        "worst": [
            {
                "prompt": earnings.rows[at]["prompt"][-1]["content"],
                "answer": earnings.answers["new"][at],
                "reward": new[at],
                "answer_in_use": earnings.answers["current"][at],
                "reward_in_use": current[at],
            }
            for at in ranked[:WORST_EXAMPLES]
        ],
        "compared": [
            {
                "prompt": row["prompt"][-1]["content"] or "",
                "prompt_key": row["prompt_key"],
                "before": earnings.answers["current"][at],
                "after": earnings.answers["new"][at],
                "rewards": [current[at], new[at]],
                "accepted": row.get("accepted", [])[:1],
            }
            for at, row in enumerate(earnings.rows[:COMPARED])
        ],
        "guards": guards.report,
    }
    prompts, means = len(earnings.rows), [earnings.mean(name) for name in MODELS]
    return Measured(evaluation_fields(verdict, prompts, prompts, means), report)


def _interval(rewards: Sequence[float]) -> Interval:
    """Within [0, 1]: rewards are."""
    interval = mean_interval({str(number): [value] for number, value in enumerate(rewards)})
    if interval is None:
        return Interval(fmean(rewards) if rewards else 0.0, 0.0, 1.0)
    return Interval(interval.value, max(0.0, interval.low), min(1.0, interval.high))
