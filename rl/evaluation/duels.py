"""Duels of a new version with the one in use: both answered the same question, and people take the better answer without
knowing whose it is. The gate makes them where it cannot tell; their picks are counted with all others between the two."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, Final, NamedTuple

from rl.base.measurements import Interval
from rl.base.records import GeneratedAnswer
from rl.evaluation.gate import Verdict
from rl.evaluation.stats import bets
from rl.evaluation.stats.budget import stake
from rl.models import Agent, AnswerPair, Deployment, Evaluation, Feedback, ModelVersion, Trace, version_name
from rl.models.queues import NOT_BLIND
from rl.models.traces import DUEL, answered_by

WORSE_AT: Final = 40.0
"""E of the version in use being the better one, from which on the new one is rejected: in 2.5 % of all cases by chance."""
FIRST: Final = (0.73, 0.65)
"""Shares of which people are told how many picks they take."""
_SHARES = {Feedback.Choice.LEFT: 1.0, Feedback.Choice.RIGHT: 0.0}
"""How much of a win a pick is for the answer on the left; a tie and "both bad" are half of one."""


@dataclass(frozen=True, slots=True)
class Picks:
    shares: tuple[float, ...]
    """How often the new version's answer was picked, of each prompt: several votes are one, their mean."""
    picks: int
    keys: tuple[str, ...] = ()
    """The prompts' keys."""

    @property
    def interval(self) -> Interval:
        """At 95 %, however often one looks."""
        return bets.interval(self.shares)

    def as_dict(self) -> dict[str, Any]:
        figures = {"share": asdict(self.interval), "prompts": len(self.shares), "picks": self.picks}
        return {"kind": "picks", **figures}

    def in_words(self, new: str, other: str) -> str:
        """Such as "14 for v2, 4 for v1, 2 ties"."""
        won, lost = (sum(sign * (x - 0.5) > 0 for x in self.shares) for sign in (1, -1))
        ties = len(self.shares) - won - lost
        return f"{won} for {new}, {lost} for {other}" + (f", {ties} tie{'' if ties == 1 else 's'}" if ties else "")


def count_picks(agent: Agent, version: ModelVersion, other: ModelVersion | None) -> Picks:
    """Side-by-side picks between answers of the two; ``other``: None for the base model. Those of people who had been told
    whose the answers are do not count."""
    shares: defaultdict[str, list[float]] = defaultdict(list)
    rows = Feedback.objects.filter(agent=agent, kind=Feedback.Kind.COMPARISON, is_current=True).order_by()
    for side, opposite in (("trace", "other_trace"), ("other_trace", "trace")):
        picked = rows.filter(answered_by(version, f"{side}__"), answered_by(other, f"{opposite}__"))
        for choice, tags, key in picked.values_list("choice", "tags", "trace__prompt_key"):
            if NOT_BLIND not in tags:
                share = _SHARES.get(Feedback.Choice(choice), 0.5)
                shares[key].append(share if side == "trace" else 1 - share)
    return Picks(tuple(fmean(values) for values in shares.values()), sum(map(len, shares.values())), tuple(shares))


def stake_of(version: ModelVersion, other: ModelVersion | None) -> float:
    """The one-sided error at which people's picks promote it: fixed when they are first asked about it."""
    rows = Evaluation.objects.filter(version__agent=version.agent_id, against=other, artifact=None)
    asked = rows.filter(report__has_key=STAKE).order_by("-created_at", "-pk")
    # the oldest comes last and counts
    stakes: dict[int, float] = dict(asked.values_list("version", "report__stake"))
    if version.pk in stakes:
        return stakes[version.pk]
    agent, line = version.agent, 0.5 - version.agent.gate_margin
    known = ModelVersion.objects.in_bulk(stakes)
    shares = {pk: count_picks(agent, known[pk], other).shares for pk in stakes}
    return stake([(staked, bets.evidence(shares[pk], line)) for pk, staked in stakes.items()])


class Sides(NamedTuple):
    """Names of the two versions, for people."""

    new: str
    other: str


def names_of(version: ModelVersion, other: ModelVersion | None) -> Sides:
    return Sides(version.name, version_name(other) if other else "the base model")


def judge_picks(picks: Picks, level: float, margin: float, sides: Sides) -> Verdict:
    """``level``: one-sided error of promoting, 0 to 1. ``margin``: loss of win rate that is bearable, 0 to 1. May be asked
    after each pick."""
    line, share, counted = 0.5 - margin, picks.interval, picks.in_words(*sides)
    difference = Interval(*(end - 0.5 for end in (share.value, share.low, share.high)))
    figures = f"In figures: {share.value:.0%} ({share.low:.0%} to {share.high:.0%}) of picks are for {sides.new}"
    evidence, asked = bets.evidence(picks.shares, line), 1 / level
    if evidence >= asked:
        is_behind = share.value <= 0.5 and margin
        bearable = f"{sides.new} is good enough, as the agent's settings allow a loss of {100 * margin:g} points"
        what = bearable if is_behind else f"People prefer {sides.new}"
        odds = f"the odds against luck are {evidence:,.0f} to 1, and {asked:,.0f} to 1 are enough"
        return Verdict("promote", difference, f"{what}: {counted}. It goes into use. {figures}; {odds}.")
    stays = f"{sides.other} stays in use. {figures}."
    if bets.evidence_against(picks.shares, line) >= WORSE_AT:
        return Verdict("reject", difference, f"People prefer {sides.other}: {counted}. {stays}")
    if is_over(picks, margin):
        reason = f"{sides.new} is not clearly better: {counted}. Nobody is asked any more, and {stays}"
        return Verdict("undecided", difference, reason)
    return Verdict("undecided", difference, f"{what_decides(picks, level, margin, sides)}.")


def is_over(picks: Picks, margin: float) -> bool:
    """Whether more picks will hardly show that the new version is better."""
    line = 0.5 - margin
    hopeless = bets.evidence(picks.shares, line) < bets.HOPELESS_BELOW
    return hopeless or len(picks.shares) >= bets.MOST_PICKS or bets.evidence_against(picks.shares, line) >= WORSE_AT


def what_decides(picks: Picks, level: float, margin: float, sides: Sides) -> str:
    """How many more picks, for a person; never from the share so far, which says little about it."""
    line = 0.5 - margin
    if picks.shares:
        more = f"at least {bets.least_more(picks.shares, level, line)} more picks are needed"
        return f"Not decided yet: {picks.in_words(*sides)}; {more}, and more still if any is for {sides.other}"
    needed = [bets.picks_needed(share, level, line) for share in FIRST]
    often, seldom = (f"about {number}" if number else f"more than {bets.MOST_PICKS}" for number in needed)
    first, second = (f"{100 * share:.0f} of 100 picks are for it" for share in FIRST)
    settled = f"it takes {often} picks of all people together if {sides.new} is clearly better ({first})"
    return f"Nobody has picked yet: {settled}, and {seldom} if it is a little better ({second})"


class Given(NamedTuple):
    """Both answers to one prompt."""

    prompt_key: str
    new: GeneratedAnswer
    other: GeneratedAnswer
    most: int
    """Tokens of an answer, after which it was cut off."""


MADE: Final = "duels"
"""Where an evaluation's report has how many there are; 0 or nothing: people are not asked about the version."""
STAKE: Final = "stake"
"""Where an evaluation's report has what is staked on the version, from the first question on."""
_STAGES: Final = (ModelVersion.Stage.CANDIDATE, ModelVersion.Stage.EVALUATED, ModelVersion.Stage.EXPORTED)


def end_duels(**whose: Agent | ModelVersion) -> None:
    """Takes those away that nobody has decided, with their answers, which nobody asked for. ``whose``: as ``find_open``."""
    for pair in list(AnswerPair.find_open(AnswerPair.Origin.DUEL, **whose)):
        Trace.objects.filter(pk__in=(pair.left_id, pair.right_id), source=DUEL).delete()


def make_duels(evaluation: Evaluation, given: Sequence[Given]) -> int:
    """In the place of those of an earlier version; how many there are now, as its report then says. None where the gate
    decided, where the version does not wait, for two answers in the same words, and for prompts that are not stored."""
    version, agent = evaluation.version, evaluation.version.agent
    is_open = evaluation.verdict == Evaluation.Verdict.UNDECIDED and version.stage in _STAGES
    if not given or not is_open or evaluation.against != Deployment.champion(agent):
        return 0
    end_duels(agent=agent)
    stored = agent.traces.filter(prompt_key__in=[of.prompt_key for of in given]).exclude(details__has_key="tools")
    prompts = dict(stored.order_by("created_at").values_list("prompt_key", "prompt"))
    decided = set(agent.traces.filter(source=DUEL, model_version=version).values_list("prompt_key", flat=True))
    texts = {of.prompt_key: (of.new.text.strip(), of.other.text.strip()) for of in given}
    asked = [of for of in given if of.prompt_key in prompts.keys() - decided and _differ(*texts[of.prompt_key])]
    for of in asked:
        sides = ((version, of.new), (evaluation.against, of.other))
        left, right = (_trace(of, agent, by, prompts[of.prompt_key], answer) for by, answer in sides)
        Trace.objects.bulk_create([left, right])
        AnswerPair.objects.create(agent=agent, left=left, right=right, origin=AnswerPair.Origin.DUEL, version=version)
    if asked:
        evaluation.report |= {MADE: len(asked), STAKE: stake_of(version, evaluation.against)}
        evaluation.save(update_fields=["report"])
    return len(asked)


def _differ(new: str, other: str) -> bool:
    return bool(new and other and new != other)


def _trace(of: Given, agent: Agent, by: ModelVersion | None, prompt: Any, answer: GeneratedAnswer) -> Trace:
    return Trace(
        agent=agent,
        model_version=by,
        source=DUEL,
        prompt=prompt,
        prompt_key=of.prompt_key,
        response=answer.text,
        details={"finish_reason": "length"} if answer.tokens_out >= of.most else {},
        tokens_in=answer.tokens_in,
        tokens_out=answer.tokens_out,
    )
