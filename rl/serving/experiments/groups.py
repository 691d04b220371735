"""How the arms do for each group that the agent names: a challenger that is better on the whole may be worse for some."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from rl.collect.groups import MOST_GROUPS, Group, choose_groups
from rl.serving.experiments import wording
from rl.serving.experiments.metrics import Observation, new_tally
from rl.serving.experiments.sequential import VALID_FROM, MetricTally
from rl.serving.experiments.verdicts import Decision, Question, Reading, gain_of, read

MOST_COUNTED: Final = 200
"""Groups of a key; those that come first."""


class GroupLook(NamedTuple):
    """A challenger beside the control, for one group."""

    group: Group
    arm: int
    version: str
    reading: Reading
    worse: bool


@dataclass(slots=True)
class GroupTallies:
    question: Question
    keys: int
    """That the agent names."""
    tallies: dict[Group, MetricTally] = field(default_factory=dict)
    _counted: Counter[str] = field(default_factory=Counter)

    def note(self, seen: Observation) -> None:
        for group in seen.groups:
            if group not in self.tallies and self._counted[group.key] < MOST_COUNTED:
                self._counted[group.key] += 1
                self.tallies[group] = new_tally(self.question.metric, self.question.minimum_effect)
            if group in self.tallies:
                self.tallies[group].add(seen.arm, seen.unit, seen.value, seen.step)

    def read(self) -> list[GroupLook]:
        """Those with enough on both sides. New groups come while an experiment runs, and somebody looks all the time: so the
        error is divided among all that it may ever have (Bonferroni)."""
        question = self.question
        surer = replace(question, confidence=1 - (1 - question.confidence) / max(1, MOST_GROUPS * self.keys))
        sizes = {group: sum(map(tally.n, question.names)) for group, tally in self.tallies.items()}
        return [
            GroupLook(group, arm, question.names[arm], reading, gain_of(question.metric, reading).high < 0)
            for group in choose_groups(sizes, VALID_FROM)
            for arm in question.challengers
            if (reading := read(surer, self.tallies[group], arm)) and reading.samples >= VALID_FROM
        ]


def hold_back(decision: Decision, question: Question, groups: Sequence[GroupLook]) -> Decision:
    """A challenger that would be put in use waits for a person where it is worse for a group."""
    worse = [look for look in groups if look.worse and look.arm == decision.arm]
    if decision.verdict != "promote" or not worse:
        return decision
    texts = (
        f"{look.group}: {wording.difference_text(question.metric, look.reading.difference.value)} "
        f"({wording.difference_interval(question.metric, look.reading.difference)}), {look.reading.samples} "
        f"{wording.observation_name(question.metric)}{'' if question.metric in wording.PAIRWISE else ' an arm'}"
        for look in worse
    )
    held = f"Better on the whole, but worse for {'; and for '.join(texts)}. It is not put in use by itself"
    return replace(decision, is_held=True, reason=f"{held}; a person decides. Without that: {decision.reason}")
