"""Whether the users of the arms fit the split that was asked for.

Where they do not, something loses, adds or moves users of one arm, and those who are left cannot be compared any more
(Fabijan et al. 2019, KDD, "Diagnosing Sample Ratio Mismatch in Online Controlled Experiments"). The test may be repeated
as often as one likes (Lindon and Malek 2022, "Anytime-Valid Inference for Multinomial Count Data", arXiv 2011.03567). Where
the right shares hold, the Bayes factor of others, drawn from a Dirichlet distribution around them, is a martingale: it ever
exceeds 1 / alpha with a probability of at most alpha (Ville 1939), and its inverse is a p-value."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from rl.models import Arm, Experiment
from rl.serving.experiments import metrics

ALPHA: Final = 0.01
"""The chance that a healthy experiment is ever called mismatched."""
CONCENTRATION: Final = 100.0
"""Weight of the right shares in the Dirichlet distribution, in users: a deviation of some points is found soonest."""
MISMATCH: Final = "The users do not fit the split"


@dataclass(frozen=True, slots=True)
class SampleRatio:
    p_value: float
    """0 to 1, valid at all looks together."""
    text: str
    """What does not fit, with its figures; empty where all does."""

    @property
    def is_mismatched(self) -> bool:
        return self.p_value < ALPHA


@dataclass(frozen=True, slots=True)
class _Group:
    """Users who were divided by one split; name of a side to its users, and to its share, above 0."""

    counts: Mapping[str, int]
    shares: Mapping[str, float]
    since: str = ""
    """With a ramp: the hour from which on they came first."""

    def p_value(self) -> float:
        return min(1.0, math.exp(-log_bayes_factor(list(self.counts.values()), list(self.shares.values()))))


def log_bayes_factor(counts: Sequence[int], expected: Sequence[float]) -> float:
    """Other shares against the expected ones, which are above 0 and have the sum 1."""
    priors = [CONCENTRATION * share for share in expected]
    total = math.lgamma(CONCENTRATION) - math.lgamma(CONCENTRATION + sum(counts))
    return total + sum(
        math.lgamma(prior + count) - math.lgamma(prior) - count * math.log(share)
        for prior, count, share in zip(priors, counts, expected, strict=True)
    )


def check_split(experiment: Experiment, arms: Sequence[Arm], users: Mapping[int, int]) -> SampleRatio | None:
    """``users``: by the arm that they were given last. None where fewer than two arms can be compared, and of a ramp that
    has ended: its early answers may have been deleted. Of several steps of a ramp the worst counts (Bonferroni)."""
    groups = _ramp_groups(experiment, arms) if experiment.ramp else _groups(arms, users)
    if not groups:
        return None
    worst = min(groups, key=_Group.p_value)
    p_value = min(1.0, worst.p_value() * len(groups))
    return SampleRatio(p_value, _text(worst, p_value) if p_value < ALPHA else "")


def _groups(arms: Sequence[Arm], users: Mapping[int, int]) -> list[_Group]:
    """The arms that are open, one with another. When an arm is stopped its share and its users are divided among these in
    proportion (weighted rendezvous hashing), so that the moment of the stop does not matter."""
    names = {arm.pk: arm.name for arm in arms}
    now_shares = shares({arm.pk: arm.weight for arm in arms if not arm.is_stopped}, None, [], 0.0)
    counts = {names[arm]: users.get(arm, 0) for arm in now_shares}
    return [_Group(counts, {names[arm]: now_shares[arm] for arm in now_shares})] if len(now_shares) > 1 else []


def _ramp_groups(experiment: Experiment, arms: Sequence[Arm]) -> list[_Group]:
    """For each step those who came first in it, by the arm that they were given then: later steps move users."""
    challengers = [arm for arm in arms if not arm.is_control]
    if experiment.state != Experiment.State.RUNNING or all(arm.is_stopped for arm in challengers):
        return []
    control = next((arm.pk for arm in arms if arm.is_control), None)
    by_step = metrics.users_by_step(experiment, [arm.pk for arm in arms])
    groups = []
    for number, step in enumerate(experiment.ramp):
        step_shares = shares({arm.pk: arm.weight for arm in arms}, control, [step], step["hours"])
        # challengers count together once one was stopped: the others then take its share, and the control keeps its own
        users = by_step.get(number, {})
        together = any(arm.is_stopped for arm in arms)
        sides: dict[str, tuple[int, float]] = {}
        for arm in arms:
            name = "the challengers" if together and not arm.is_control else arm.name
            count, share = sides.get(name, (0, 0.0))
            sides[name] = count + users.get(arm.pk, 0), share + step_shares.get(arm.pk, 0.0)
        counts = {name: count for name, (count, share) in sides.items() if share > 0}
        expected = {name: share for name, (_, share) in sides.items() if share > 0}
        if len(expected) > 1:
            groups.append(_Group(counts, expected, f"{step['hours']:g}" if len(experiment.ramp) > 1 else ""))
    return groups


def _text(group: _Group, p_value: float) -> str:
    total = sum(group.counts.values())
    figures = ", ".join(
        f"{name} {count:,} of {total:,} where about {total * group.shares[name]:,.0f} fit"
        for name, count in group.counts.items()
    )
    since = f" of those who came first in the step from hour {group.since} on" if group.since else ""
    p = "below 0.001" if p_value < 0.001 else f"{p_value:.3f}"
    caution = "The figures cannot be trusted until the cause is known."
    return f"{MISMATCH} that was asked for:{since} {figures} (p {p}). {caution}"


Key = TypeVar("Key", int, str)


def shares(
    weights: Mapping[Key, float], control: Key | None, ramp: Sequence[Mapping[str, Any]], hours: float
) -> dict[Key, float]:
    """Share of the traffic of each arm, 0 to 1, ``hours`` after the start; empty when no weight is above zero. A step of
    the ramp (``hours``, ``share``) says how much all but the control get together; they divide it by their weights. Without
    a control, or before there is a step, the weights alone decide."""
    total = sum(weights.values())
    if total <= 0:
        return {}
    plain = {key: weight / total for key, weight in weights.items()}
    reached = [step["share"] for step in ramp if step["hours"] <= hours]
    others = sum(share for key, share in plain.items() if key != control)
    if not reached or control not in plain or others <= 0:
        return plain
    return {key: 1 - reached[-1] if key == control else reached[-1] * plain[key] / others for key in plain}


def pick(experiment: int | str, unit: str, of_arms: Mapping[Key, float]) -> Key:
    """The arm of ``unit`` by weighted rendezvous hashing (Thaler and Ravishankar 1998; Schindelhauer and Schomaker 2005):
    when one share grows, users move to that arm and to no other. Raises ValueError when no share is above zero."""
    return max(
        (key for key, share in of_arms.items() if share > 0), key=lambda key: _score(experiment, unit, key, of_arms)
    )


def _score(experiment: int | str, unit: str, key: Key, of_arms: Mapping[Key, float]) -> float:
    digest = hashlib.sha256(f"{experiment}\0{key}\0{unit}".encode()).digest()
    fraction = (int.from_bytes(digest[:8]) + 0.5) / 2**64
    return -of_arms[key] / math.log(fraction)
