"""Whether a version that is better on the whole is worse for some: for a language, a plan, a topic.

A group is harmed where the whole interval of its share, or of its difference, lies below the line that the verdict itself
goes by. Of several groups one looks bad by chance, so they share the error of 5 % (Bonferroni): all their intervals together
hold in 95 % of cases. A version that harms one is not promoted by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from rl.base.measurements import Interval
from rl.collect.groups import Group, choose_groups, find_groups
from rl.evaluation.duels import Picks
from rl.evaluation.gate import FEWEST_PROMPTS, Verdict, Words, interval_of_mean
from rl.evaluation.measures.fresh import Fresh, Unheard, forecast
from rl.evaluation.stats import bets
from rl.models import Agent

ERROR: Final = 0.05
"""All groups share it; two-sided."""
_PREFERRED: Final = "preferred in {{figures}} of {{prompts}} {things}"
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PromptEvidence:
    """What decides about the new version, prompt by prompt."""

    values: Mapping[str, float]
    """By prompt key."""
    interval: Callable[[Sequence[float], float], Interval]
    """That their mean has, at this two-sided error."""
    margin: float
    """Loss that is bearable."""
    words: str
    """With places for ``figures`` and ``prompts``."""
    write: Callable[[float], str] = "{:.0%}".format
    even: float = 0.5
    """The value where both versions are as good."""
    smallest: float = 0.0
    """The smallest loss that matters."""

    def describe(self, group: Group, prompts: Sequence[str], error: float) -> Row:
        interval, line = self.interval([self.values[key] for key in prompts], error), self.even - self.margin
        value, low, high = map(self.write, (interval.value, interval.low, interval.high))
        figures = f"{value} ({low} to {high})"
        return {
            "group": str(group),
            "prompts": len(prompts),
            "interval": asdict(interval),
            "figures": figures,
            "text": self.words.format(figures=figures, prompts=len(prompts)),
            "worse": interval.high < line and interval.value <= line - self.smallest,
            "as_good": interval.value >= line,
        }


@dataclass(frozen=True, slots=True)
class Groups:
    rows: Sequence[Row] = ()
    """Those looked at: ``group``, ``prompts``, ``interval``, ``figures``, ``text``, ``worse``, ``as_good``."""
    left_out: int = 0
    """Those with too few prompts, or beyond the largest of their key."""
    margin: float = 0.0

    @property
    def report(self) -> dict[str, Any]:
        return {"groups": {"rows": list(self.rows), "left_out": self.left_out}} if self.rows or self.left_out else {}

    def over(self, verdict: Verdict) -> Verdict:
        """A version that harms a group is promoted by a person or not at all."""
        worse = "; and for ".join(f"{row['group']}: {row['text']}" for row in self.rows if row["worse"])
        if verdict.decision != "promote" or not worse:
            return verdict
        whole = "Good enough" if self.margin else "Better"
        held = f"{whole} on the whole, but worse for {worse}. It does not go into use by itself: a person decides."
        return replace(verdict, decision="undecided", reason=f"{held} Without that: {verdict.reason}")

    def after(self, earlier: Sequence[Row]) -> Groups:
        """With those that other evidence has called worse, a judge's, until this one, people's, sees them as good."""
        known = {row["group"] for row in self.rows if row["worse"] or row["as_good"]}
        worse = {row["group"]: row for row in earlier if row["worse"] and row["group"] not in known}
        return replace(self, rows=[*(row for row in self.rows if row["group"] not in worse), *worse.values()])


def look_at_groups(agent: Agent, evidence: PromptEvidence) -> Groups:
    """Nothing where the agent names no key. One query."""
    members = find_groups(agent, evidence.values)
    chosen = choose_groups({group: len(prompts) for group, prompts in members.items()}, FEWEST_PROMPTS)
    rows = [evidence.describe(group, members[group], ERROR / len(chosen)) for group in chosen]
    return Groups(rows, len(members) - len(chosen), evidence.margin)


def of_preferences(agent: Agent, decided_by: str, picks: Picks | None, fresh: Fresh | Unheard | None) -> Groups:
    """By the evidence that decides; a judge that does better than chance is heard beside people's picks."""
    judged = Groups()
    if decided_by and isinstance(fresh, Fresh) and fresh.judge.beats_chance:
        sides, words = dict(zip(fresh.keys, fresh.sides, strict=True)), _PREFERRED.format(things="answers")
        judged = look_at_groups(agent, PromptEvidence(sides, forecast, agent.gate_margin, words))
    return of_picks(agent, picks, judged.rows) if decided_by == "picks" and picks else judged


def of_picks(agent: Agent, picks: Picks, earlier: Sequence[Row]) -> Groups:
    """May be asked after each pick. ``earlier``: rows of a judge's groups."""
    shares, words = dict(zip(picks.keys, picks.shares, strict=True)), _PREFERRED.format(things="comparisons")
    return look_at_groups(agent, PromptEvidence(shares, bets.interval, agent.gate_margin, words)).after(earlier)


def of_changes(agent: Agent, keys: Sequence[str], changes: Sequence[float], words: Words) -> Groups:
    """By how much more each prompt earns from the new version than from the one in use."""
    evidence = PromptEvidence(
        dict(zip(keys, changes, strict=True)),
        lambda values, error: interval_of_mean(values, 1 - error),
        agent.gate_margin,
        f"{{figures}} {words.gain} on {{prompts}} {words.thing}s",
        words.write,
        0.0,
        words.smallest,
    )
    return look_at_groups(agent, evidence)
