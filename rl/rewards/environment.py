"""How an episode ended."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rl.base.records import TraceRecord
from rl.rewards.base import BaseReward, RewardResult

LONGEST_REASON = 300


class EnvironmentReward(BaseReward):
    """1 where the environment of an episode (``details["episode"]``) says that the agent succeeded, else its reward held to
    0 … 1. As heavy as what people say: it alone, and not how smoothly it went on the way, makes an episode good or bad."""

    name = "environment"
    weight = 3.0
    fresh = False

    def compute(self, trace: TraceRecord) -> RewardResult:
        episode = trace.details.get("episode")
        if not isinstance(episode, Mapping):
            return self.abstains("it is not an episode in an environment")
        reward = episode.get("reward")
        if not isinstance(reward, (int, float)) or not math.isfinite(reward):
            return self.abstains("its environment broke, and says nothing about the agent")
        reason = str(episode.get("reason") or "")[:LONGEST_REASON]
        if episode.get("success") is True:
            return self.gives(1.0, f"solved: {reason}", reward=reward)
        return self.gives(min(1.0, max(0.0, reward)), f"not solved: {reason}", reward=reward)
