"""From figures to advice: how many rows each method could use today, what is missing, and which method to take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.plan.figures import RATINGS, REWARDED, Figures
from rl.dataset_builder.plan.shortage import counted

ENOUGH = DataOptions().min_samples
"""Rows that a run asks for."""
PLENTY = 4
"""Labelled answers for each pair, at most, where pairs use what people said well."""

How = Literal["about", "at least"]
REMARKS: dict[How, str] = {
    "about": "equal texts and answers without text are found only when the rows are written",
    "at least": f"the newest {RATINGS:,} ratings and {REWARDED:,} rewarded answers were looked at",
}


@dataclass(frozen=True, slots=True)
class MethodPlan:
    method: str
    rows: int
    how: How
    made_of: str
    missing: str
    """Until there is enough; empty when there is."""

    @property
    def ready(self) -> bool:
        return not self.missing


@dataclass(frozen=True, slots=True)
class Advice:
    method: str
    """Empty: nothing can be trained yet."""
    reason: str


def plans(found: Figures, *, uses_direct: bool, agent: str) -> list[MethodPlan]:
    """``uses_direct``: picks and edited answers make pairs for this agent."""
    return [_dpo(found, uses_direct), _kto(found), _grpo(found, agent), _reward(found, agent), _sft(found)]


def advise(found: Figures, methods: list[MethodPlan]) -> Advice:
    of = {plan.method: plan for plan in methods}
    said = found.judged
    pairs = of["dpo"].rows
    if of["dpo"].ready and pairs * PLENTY >= said:
        return Advice("dpo", f"{_number(of['dpo'])} pairs use well what people said, and a pair says more than a label")
    if of["kto"].ready and said >= ENOUGH:
        return Advice("kto", f"{said:,} answers are rated, and only {pairs:,} pairs come of them: KTO needs none")
    if of["grpo"].ready:
        return Advice("grpo", f"rewards tell the answers to {_number(of['grpo'])} prompts apart, and few are rated")
    if of["kto"].ready:
        return Advice("kto", "rewards label single answers; GRPO becomes possible with a second answer to each prompt")
    if of["dpo"].ready:
        return Advice("dpo", f"{_number(of['dpo'])} pairs are enough for a run")
    nearest = max((of["dpo"], of["kto"], of["grpo"]), key=lambda plan: plan.rows)
    return Advice("", f"nothing can be trained yet; {nearest.method} is nearest: {nearest.missing}")


def _dpo(found: Figures, uses_direct: bool) -> MethodPlan:
    direct = found.picks + found.corrections if uses_direct else 0
    rows = found.rated_pairs + direct
    made_of = f"{found.rated_pairs:,} of ratings, {direct:,} of picks and edited answers"
    missing = ""
    if rows < ENOUGH:
        missing = f"{counted(ENOUGH - rows, 'more pair')}: rate two answers to one prompt, one up and one down"
        if found.one_sided_prompts:
            prompts = counted(found.one_sided_prompts, "prompt")
            missing = f"{counted(ENOUGH - rows, 'more pair')}: on {prompts} one opposite rating is missing"
        missing += ", or edit an answer" if uses_direct else ""
    return MethodPlan("dpo", rows, "about" if found.all_ratings_seen else "at least", made_of, missing)


def _kto(found: Figures) -> MethodPlan:
    by_reward = found.rewarded - found.rated_and_rewarded
    proposed = found.proposed - found.rated_and_proposed
    rows = found.judged + max(by_reward, proposed)
    good = found.good > 0 or found.rewarded_good > 0 or found.proposed_good > 0
    bad = found.bad + found.both_bad > 0 or found.rewarded_good < found.rewarded or found.proposed_good < found.proposed
    missing = ""
    if rows < ENOUGH:
        missing = f"{counted(ENOUGH - rows, 'more labelled answer')}: rate single answers, up or down"
    elif not (good and bad):
        missing = f"all labels are {'good' if good else 'bad'}: rate some answers {'down' if good else 'up'}"
    made_of = f"{found.judged:,} rated, {by_reward:,} by their reward, {proposed:,} proposed"
    return MethodPlan("kto", rows, _how_many_labels(found), made_of, missing)


def _how_many_labels(found: Figures) -> How:
    if found.proposed or not (found.all_ratings_seen and found.all_rewards_seen):
        return "at least"
    return "about"


def _grpo(found: Figures, agent: str) -> MethodPlan:
    rows = found.differing_prompts
    made_of = (
        f"prompts whose rewards differ; {found.equal_prompts:,} with equal rewards and {found.single_prompts:,} with "
        "one answer teach nothing"
    )
    missing = ""
    if rows < ENOUGH:
        missing = f"{counted(ENOUGH - rows, 'more prompt')} with two or more answers whose rewards differ"
        missing += f"; {_calculate(agent)}" if found.rewarded < found.traces else ""
    return MethodPlan("grpo", rows, "about" if found.all_rewards_seen else "at least", made_of, missing)


def _reward(found: Figures, agent: str) -> MethodPlan:
    rows = found.rewarded
    missing = "" if rows >= ENOUGH else f"{counted(ENOUGH - rows, 'more answer')} with a reward: {_calculate(agent)}"
    how: How = "about" if found.all_rewards_seen else "at least"
    return MethodPlan("reward", rows, how, "answers with a reward", missing)


def _sft(found: Figures) -> MethodPlan:
    rows = found.corrections
    missing = "" if rows >= ENOUGH else counted(ENOUGH - rows, "more edited answer")
    return MethodPlan("sft", rows, "about", "answers that people edited", missing)


def _calculate(agent: str) -> str:
    return f"'manage.py calculate_rewards --agent {agent}' computes rewards"


def _number(plan: MethodPlan) -> str:
    return f"{plan.how} {plan.rows:,}"
