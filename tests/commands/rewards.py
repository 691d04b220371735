"""A reward of one's own, for processes that are started with CUSTOM_REWARDS."""

from rl.base.records import TraceRecord
from rl.rewards.base import BaseReward, RewardResult


class Vowels(BaseReward):
    """The share of vowels among the answer's characters."""

    def compute(self, trace: TraceRecord) -> RewardResult:
        if not trace.response:
            return self.abstains("it says nothing")
        return self.gives(sum(letter in "aeiou" for letter in trace.response) / len(trace.response), "vowels")
