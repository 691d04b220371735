"""Answers as rewards see them."""

from typing import Any

from rl.base.records import FeedbackRecord, Message, TraceRecord
from rl.rewards import BaseReward, RewardResult


def record(response: str = "On its way.", **fields: Any) -> TraceRecord:
    prompt = (Message(role="user", content="Where is my parcel?"),)
    return TraceRecord(id="1", agent="support-chat", prompt=prompt, response=response, **fields)


def rated(*values: float, **fields: Any) -> TraceRecord:
    return record(feedback=tuple(FeedbackRecord(kind="rating", value=value) for value in values), **fields)


class Fixed(BaseReward):
    """Always says the same; None abstains."""

    def __init__(self, name: str, value: float | None, weight: float = 1.0, supporting: bool = False) -> None:
        self.name, self.value, self.weight, self.supporting = name, value, weight, supporting

    def compute(self, trace: TraceRecord) -> RewardResult:
        return self.abstains("no") if self.value is None else self.gives(self.value, "yes")


class Length(BaseReward):
    """A reward as somebody else would write it: short answers are good ones."""

    weight = 2.0

    def compute(self, trace: TraceRecord) -> RewardResult:
        return self.gives(1 / (1 + len(trace.response)), "by length")


class Breaks(BaseReward):
    name = "breaks"

    def compute(self, trace: TraceRecord) -> RewardResult:
        raise KeyError("no such thing")


class NeedsArguments(Length):
    def __init__(self, needed: str) -> None:
        self.needed = needed
