"""RewardEngine: combine, group, label; and rewards of one's own, by path."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from rl.base.errors import Interrupted, RewardFailed, SandboxUnavailable, UsageError
from rl.base.leaves import import_name
from rl.base.names import unknown_name
from rl.base.records import TraceRecord
from rl.base.slugs import check_slug
from rl.config.reward_weights import check_reward_weights
from rl.rewards import REWARDS, reward_class
from rl.rewards.base import BaseReward, RewardResult
from rl.rewards.recorded import mean_rating
from rl.rewards.summary import RewardSummary

LABEL_THRESHOLD = 0.6
EQUAL = 1e-9
"""Rewards of a group that differ by less are equal: their tiny spread is rounding, and would be blown up to 1."""


class RewardEngine:
    """The registry's rewards, each under its weight. ``weights`` replaces single defaults; 0 switches a reward off.
    ``rewards`` are further ones, or stand in for those of their name. Raises UsageError for the weight of an unknown
    reward, and for what cannot be a weight."""

    def __init__(
        self,
        weights: Mapping[str, float] | None = None,
        *,
        rewards: Iterable[BaseReward] = (),
        label_threshold: float = LABEL_THRESHOLD,
    ) -> None:
        by_name = {reward.name: reward for reward in rewards}
        built_in = {name: by_name.get(name) or reward_class(name)() for name in REWARDS}
        self.rewards: dict[str, BaseReward] = {**built_in, **by_name}
        overrides = weights or {}
        check_reward_weights(overrides)
        if unknown := sorted(set(overrides) - set(self.rewards)):
            raise UsageError(unknown_name("reward", unknown[0], self.rewards))
        whole = {name: overrides.get(name, reward.weight) for name, reward in self.rewards.items()}
        check_reward_weights(whole)
        self.weights = {name: float(weight) for name, weight in whole.items()}
        self.label_threshold = label_threshold

    def compute_all(self, trace: TraceRecord) -> list[RewardResult]:
        """One result for each reward that is not switched off. Raises RewardFailed for the first that breaks."""
        results = []
        for result in self.attempt_all(trace):
            if isinstance(result, RewardFailed):
                raise result
            results.append(result)
        return results

    def attempt_all(self, trace: TraceRecord) -> list[RewardResult | RewardFailed]:
        """Does what ``compute_all`` does, but rewards that break do not hide the others."""
        return [self._attempt(name, trace) for name, weight in self.weights.items() if weight]

    def compute_combined(self, trace: TraceRecord) -> float | None:
        """0 … 1, or None when nothing applies. Raises RewardFailed."""
        return self.combine(self.compute_all(trace))

    def combine(self, results: Iterable[RewardResult]) -> float | None:
        """The weighted mean of the rewards that apply; None when none of them is evidence by itself."""
        applying = [(result, result.value) for result in results if result.value is not None]
        if all(result.name in self.rewards and self.rewards[result.name].supporting for result, _ in applying):
            return None
        total = math.fsum(result.weight for result, _ in applying)
        mean = math.fsum(result.weight * value for result, value in applying) / total
        return min(1.0, max(0.0, mean))

    def compute_for_group(self, traces: Sequence[TraceRecord]) -> list[float | None]:
        """Combined rewards of answers to one prompt, as (r - mean) / std of the group (population); None where nothing
        applies. Raises RewardFailed."""
        return normalise([self.compute_combined(trace) for trace in traces])

    def get_binary_label(self, trace: TraceRecord) -> bool | None:
        """What people say, else whether the combined reward reaches the threshold; None: nobody and nothing says."""
        person = person_label(trace)
        return person if person is not None else self.label_of(self.compute_combined(trace))

    def label_of(self, combined: float | None) -> bool | None:
        return None if combined is None else combined >= self.label_threshold

    def summary(self, traces: Iterable[TraceRecord]) -> dict[str, Any]:
        """Counts, mean and spread of each reward and of the combined one, and the labels; needs memory for one trace."""
        summary = RewardSummary()
        for trace in traces:
            results = self.attempt_all(trace)
            summary.add(results, *self.verdict(trace, results))
        return summary.as_dict()

    def verdict(
        self, trace: TraceRecord, results: Sequence[RewardResult | RewardFailed]
    ) -> tuple[float | None, bool | None]:
        """Combined reward and label. A broken reward leaves no combined one: a mean of the others would mislead."""
        whole = [result for result in results if isinstance(result, RewardResult)]
        combined = self.combine(whole) if len(whole) == len(results) else None
        person = person_label(trace)
        return combined, person if person is not None else self.label_of(combined)

    def _attempt(self, name: str, trace: TraceRecord) -> RewardResult | RewardFailed:
        reward = self.rewards[name]
        try:
            return self._check_result(name, reward.compute(trace))
        except SandboxUnavailable as error:
            return self._check_result(name, reward.abstains(str(error)))
        except Interrupted:
            raise
        except Exception as error:  # noqa: BLE001  a reward may be anybody's code: it is its own failure
            if isinstance(error, RewardFailed) and error.reward == name:
                return error
            failure = RewardFailed(name, f"{type(error).__name__}: {error}"[:500])
            failure.__cause__ = error
            return failure

    def _check_result(self, name: str, result: RewardResult) -> RewardResult | RewardFailed:
        if not isinstance(result, RewardResult):
            return RewardFailed(name, f"gave {result!r:.200}; compute returns self.gives(...) or self.abstains(...)")
        if result.value is not None and not 0 <= result.value <= 1:  # also refuses NaN
            return RewardFailed(name, f"gave {result.value!r}; a reward is a number from 0 to 1, or None")
        value = None if result.value is None else float(result.value)
        return replace(result, name=name, value=value, weight=self.weights[name])


def person_label(trace: TraceRecord) -> bool | None:
    """Good above the middle of the mean rating, bad below; None where nobody rated or the mean is in the middle."""
    rating = mean_rating(trace)
    return None if rating is None or rating == 0.5 else rating > 0.5


def normalise(rewards: Sequence[float | None]) -> list[float | None]:
    """(r - mean) / std over those that are not None; 0 where all are equal."""
    known = [reward for reward in rewards if reward is not None]
    if not known or max(known) - min(known) < EQUAL:
        return [None if reward is None else 0.0 for reward in rewards]
    mean = fmean(known)
    spread = math.sqrt(fmean((reward - mean) ** 2 for reward in known))
    return [None if reward is None else (reward - mean) / spread for reward in rewards]


def load_rewards(paths: Mapping[str, str]) -> list[BaseReward]:
    """An object of each class of one's own, under the name that it is given here. Raises UsageError that says which is
    wrong."""
    rewards = []
    for name, path in paths.items():
        check_slug(name, "reward name")
        try:
            kind = import_name(path)
        except Exception as error:  # whatever somebody else's module does when it is imported
            raise UsageError(f"the reward {name}={path} cannot be loaded: {type(error).__name__}: {error}") from error
        if not (isinstance(kind, type) and issubclass(kind, BaseReward)):
            raise UsageError(f"the reward {name}={path} is not a subclass of rl.rewards.BaseReward")
        try:
            reward = kind()
        except Exception as error:
            raise UsageError(f"the reward {name}={path} cannot be made without arguments: {error}") from error
        reward.name = name
        rewards.append(reward)
    return rewards
