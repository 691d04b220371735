"""What a model expects."""

from __future__ import annotations

from collections.abc import Callable

from rl.base.records import TraceRecord
from rl.rewards.base import BaseReward, RewardResult

NOTHING_LEARNED = "no model has learned from people's labels yet"
NOT_JUDGED = "no label is proposed for it; auto_label proposes them for answers that nobody has labelled"


class LearnedReward(BaseReward):
    """What a model that learned from people's labels expects them to say.

    ``predict`` gives the probability of a good label, 0 … 1, or None where it does not know. Supporting: a guess about
    people is not evidence by itself; a trace that only the model knows is labelled through proposals, from the confidence
    on that a person chose.
    """

    name = "learned_reward"
    weight = 1.0
    supporting = True

    def __init__(
        self, predict: Callable[[TraceRecord], float | None] | None = None, why_not: str = NOTHING_LEARNED
    ) -> None:
        self.predict = predict
        self.why_not = why_not

    def compute(self, trace: TraceRecord) -> RewardResult:
        if self.predict is None:
            return self.abstains(self.why_not)
        probability = self.predict(trace)
        if probability is None:
            return self.abstains(NOT_JUDGED)
        return self.gives(probability, "the probability of a good label, as the model expects it")
