"""From figures to advice: how many rows each method could use today, what is missing, and which method to take."""

from dataclasses import dataclass
from typing import Literal

from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.plan.figures import RATINGS, REWARDED, Figures
from rl.dataset_builder.plan.shortage import plural

ENOUGH = DataOptions().min_samples
"""Rows that a run asks for."""

How = Literal["about", "at least"]
REMARKS: dict[How, str] = {
    "about": "equal texts and chats that the model's template refuses are found only when the rows are written: "
    "'training_plan --show 5' counts them by reason",
    "at least": f"the newest {RATINGS:,} ratings and {REWARDED:,} rewarded answers were looked at, and answers that "
    "may be in a pair are not counted again",
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


def plans(figures: Figures, *, uses_direct: bool, agent: str, has_right_answers: bool = False) -> list[MethodPlan]:
    """``uses_direct``: picks and edited answers make pairs for this agent. ``has_right_answers``: accepted ones are
    imitated, and no other is needed."""
    pairs, labels = _dpo(figures, uses_direct), _kto(figures)
    return [
        _mpo(figures, pairs, labels, has_right_answers),
        pairs,
        labels,
        _grpo(figures, agent),
        _reward_model(figures, uses_direct, agent),
        _reward(figures, agent),
        _sft(figures, pairs, labels),
    ]


def advise(figures: Figures, methods: list[MethodPlan]) -> Advice:
    by_method = {plan.method: plan for plan in methods}
    mixed, groups = by_method["mpo"], by_method["grpo"]
    good = by_method["sft"]
    from_people = figures.judged + figures.picks + figures.corrections
    if mixed.ready and from_people >= ENOUGH:
        return Advice("mpo", f"every kind of rating trains in one run: {mixed.made_of}")
    if groups.ready:
        apart = f"rewards tell the answers to {groups.how} {groups.rows:,} prompts apart, and few are rated"
        return Advice("grpo", f"{apart}; with --rollouts offline it learns from these answers")
    if mixed.ready:
        return Advice("mpo", f"{mixed.made_of}; GRPO becomes possible with a second answer to each prompt")
    if good.ready:
        return Advice("sft", f"{good.made_of} are imitated; with some that are rated down, preferences train too")
    nearest = max((mixed, groups), key=lambda plan: plan.rows)
    can_train = [plan.method for plan in methods if plan.ready]
    so_far = f"only {' and '.join(can_train)} can" if can_train else "nothing can"
    return Advice("", f"{so_far} be trained yet; {nearest.method} is nearest: {nearest.missing}")


def _mpo(figures: Figures, pairs: MethodPlan, labels: MethodPlan, has_right_answers: bool) -> MethodPlan:
    """Pairs where two answers can be compared, and what is left as single labels."""
    alone = labels.rows - figures.judged + figures.judged_alone + 2 * figures.both_bad
    rows = pairs.rows + alone
    made_of = f"{plural(pairs.rows, 'pair')}, {plural(alone, 'single answer')}"
    made_of += f"; {_who_learns(figures)}" if figures.ratings else ""
    missing = ""
    if rows < ENOUGH:
        missing = f"{plural(ENOUGH - rows, 'more rated answer')}: rate answers up or down"
    elif not pairs.rows and not has_right_answers:
        missing = labels.missing
    how: How = "at least" if "at least" in (pairs.how, labels.how) else "about"
    return MethodPlan("mpo", rows, how, made_of, missing)


def _who_learns(figures: Figures) -> str:
    """What share of the ratings that were looked at takes part, and why not all."""
    share = 1 - figures.undecided / figures.ratings
    if not figures.undecided:
        return "100 % of the ratings take part"
    others = "in the middle of the scale, without text or broken off"
    return f"{share:.0%} of the ratings take part, the others are of answers {others}"


def _dpo(figures: Figures, uses_direct: bool) -> MethodPlan:
    direct = figures.picks + figures.corrections if uses_direct else 0
    rows = figures.rated_pairs + direct
    made_of = f"{figures.rated_pairs:,} of ratings, {direct:,} of picks and edited answers"
    missing = ""
    if rows < ENOUGH:
        missing = f"{plural(ENOUGH - rows, 'more pair')}: rate two answers to one prompt, one up and one down"
        if figures.one_sided_prompts:
            prompts = plural(figures.one_sided_prompts, "prompt")
            missing = f"{plural(ENOUGH - rows, 'more pair')}: on {prompts} one opposite rating is missing"
        missing += ", or edit an answer" if uses_direct else ""
    return MethodPlan("dpo", rows, "about" if figures.all_ratings_seen else "at least", made_of, missing)


def _kto(figures: Figures) -> MethodPlan:
    by_reward = figures.rewarded - figures.rated_and_rewarded
    proposed = figures.proposed - figures.rated_and_proposed
    rows = figures.judged + max(by_reward, proposed)
    good = figures.good > 0 or figures.rewarded_good > 0 or figures.proposed_good > 0
    bad = figures.bad > 0 or figures.both_bad > 0
    bad = bad or figures.rewarded_good < figures.rewarded or figures.proposed_good < figures.proposed
    missing = ""
    if rows < ENOUGH:
        missing = f"{plural(ENOUGH - rows, 'more labelled answer')}: rate single answers, up or down"
    elif not (good and bad):
        missing = f"all labels are {'good' if good else 'bad'}: rate some answers {'down' if good else 'up'}"
    made_of = f"{figures.judged:,} rated, {by_reward:,} by their reward, {proposed:,} proposed"
    exact = figures.all_ratings_seen and figures.all_rewards_seen and not figures.proposed
    return MethodPlan("kto", rows, "about" if exact else "at least", made_of, missing)


def _sft(figures: Figures, pairs: MethodPlan, labels: MethodPlan) -> MethodPlan:
    by_reward = max(0, figures.rewarded_good - figures.rated_and_rewarded)
    rows = pairs.rows + figures.good_alone + by_reward
    missing = f"{plural(ENOUGH - rows, 'more accepted answer')}: choose, edit or like answers" if rows < ENOUGH else ""
    how: How = "at least" if "at least" in (pairs.how, labels.how) or by_reward else "about"
    return MethodPlan("sft", rows, how, "answers that were chosen, edited or liked", missing)


def _grpo(figures: Figures, agent: str) -> MethodPlan:
    rows = figures.differing_prompts
    made_of = (
        f"prompts whose rewards differ; {figures.equal_prompts:,} with equal rewards and {figures.single_prompts:,} with "
        "one answer teach nothing"
    )
    missing = ""
    if rows < ENOUGH:
        missing = f"{plural(ENOUGH - rows, 'more prompt')} with two or more answers whose rewards differ"
        missing += f"; {_calculate(agent)}" if figures.rewarded < figures.traces else ""
    return MethodPlan("grpo", rows, "about" if figures.all_rewards_seen else "at least", made_of, missing)


def _reward_model(figures: Figures, uses_direct: bool, agent: str) -> MethodPlan:
    """Pairs, and the scored answers that are in none."""
    direct = figures.picks + figures.corrections if uses_direct else 0
    pairs = figures.rated_pairs + direct
    kind, alone = "of people", figures.unpaired
    if figures.all_ratings_seen:  # else a rewarded answer may be in a pair
        alone += figures.rewarded - figures.paired_and_rewarded
    if not pairs:
        # each of these prompts has at least one pair, in which its answers are
        kind, pairs = "of rewards", figures.differing_prompts
        alone = figures.unpaired + figures.undiffering
    elif direct:
        # a pick may be about two of the scored answers, an edit about one
        alone = max(0, alone - 2 * figures.picks - figures.corrections)
    rows = pairs + alone
    missing = ""
    if rows < ENOUGH:
        missing = f"{plural(ENOUGH - rows, 'more scored answer')}: rate single answers, by thumb, stars or score"
        missing += f"; {_calculate(agent)}" if figures.rewarded < figures.traces else ""
    elif not pairs and not figures.scores_differ:
        missing = "all answers have the same score: rate some of them otherwise"
    exact = figures.all_ratings_seen and figures.all_rewards_seen and not (direct or figures.proposed)
    how: How = "about" if exact and not (kind == "of rewards" and pairs) else "at least"
    return MethodPlan(
        "reward_model", rows, how, f"{plural(pairs, 'pair')} {kind}, {alone:,} single scored answers", missing
    )


def _reward(figures: Figures, agent: str) -> MethodPlan:
    rows = figures.rewarded
    missing = "" if rows >= ENOUGH else f"{plural(ENOUGH - rows, 'more answer')} with a reward: {_calculate(agent)}"
    how: How = "about" if figures.all_rewards_seen else "at least"
    return MethodPlan("reward", rows, how, "answers with a reward", missing)


def _calculate(agent: str) -> str:
    return f"'manage.py calculate_rewards --agent {agent}' computes rewards"
