"""Rewards by what was recorded of an answer: tool calls, the end of its episode, what it used, its tasks."""

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from statistics import fmean

from rl.base.records import FeedbackRecord, TaskEvent, TraceRecord
from rl.rewards.base import BaseReward, RewardResult
from rl.rewards.decision import is_of_decision


class ToolSuccessReward(BaseReward):
    """The share of the tool calls that succeeded. Says nothing about whether they were the right ones."""

    name = "tool_success"
    weight = 2.0
    fresh = False

    def compute(self, trace: TraceRecord) -> RewardResult:
        if not trace.tool_calls:
            return self.abstains("it called no tool")
        failed = sorted({call.tool_name[:100] for call in trace.tool_calls if not call.success})[:10]
        calls, good = len(trace.tool_calls), sum(call.success for call in trace.tool_calls)
        return self.gives(good / calls, f"{good} of {calls} tool calls succeeded", calls=calls, failed=failed)


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


class EfficiencyReward(BaseReward):
    """The mean of 2 ** (-used / half) over what is known of tokens (in and out), tool calls and duration. Each part is 1
    for nothing used, 0.5 at its ``half``, and nears 0. Supporting: a quick wrong answer is not a good one."""

    name = "efficiency"
    weight = 0.5
    supporting = True

    def __init__(self, tokens: float = 4000, tool_calls: float = 8, duration_ms: float = 60_000) -> None:
        self.halves = {"tokens": tokens, "tool_calls": tool_calls, "duration_ms": duration_ms}

    def compute(self, trace: TraceRecord) -> RewardResult:
        tokens = [count for count in (trace.tokens_in, trace.tokens_out) if count is not None]
        known = {
            "tokens": sum(tokens) if tokens else None,
            # no recorded tool call may mean that none was made or that none was recorded
            "tool_calls": len(trace.tool_calls) or None,
            "duration_ms": trace.duration_ms,
        }
        usage = {name: amount for name, amount in known.items() if amount is not None and amount >= 0}
        if not usage:
            return self.abstains("neither tokens, tool calls nor duration are known")
        parts = {name: 2 ** (-amount / self.halves[name]) for name, amount in usage.items()}
        amounts = ", ".join(f"{amount:g} {name.replace('_', ' ')}" for name, amount in usage.items())
        return self.gives(fmean(parts.values()), f"it used {amounts}", parts=parts)


class TaskCompletionReward(BaseReward):
    """The share of the tasks that were completed. A task that failed and was completed later counts as completed, one that
    never ended as not completed."""

    name = "task_completion"
    weight = 1.5
    fresh = False

    def compute(self, trace: TraceRecord) -> RewardResult:
        # one ending for each task; an event without a task's id is a task of its own
        tasks: dict[str, list[TaskEvent]] = {}
        for number, event in enumerate(trace.tasks):
            tasks.setdefault(event.task_id or f"\x00{number}", []).append(event)
        last = [_ending(events).status for events in tasks.values()]
        if not last:
            return self.abstains("it had no task")
        count = {status: sum(ending == status for ending in last) for status in ("completed", "failed", "created")}
        reason = f"{count['completed']} of {len(last)} tasks were completed"
        details = {"completed": count["completed"], "failed": count["failed"], "open": count["created"]}
        return self.gives(count["completed"] / len(last), reason, **details)


def _ending(events: list[TaskEvent]) -> TaskEvent:
    """The latest that ends the task; by time where every event has one, else by position."""
    endings = [event for event in events if event.status != "created"] or events
    times = [_moment(event.timestamp) for event in endings]
    known = [time for time in times if time is not None]
    if len(known) < len(endings):
        return endings[-1]
    return endings[max(range(len(endings)), key=lambda index: (known[index], index))]


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class FeedbackReward(BaseReward):
    """The mean of the current ratings, 0 … 1. No check of a program is heavier: it is what they all stand for. A rating
    that came with a decision counts in the reward ``decision``, and not here once more."""

    name = "feedback"
    weight = 3.0
    fresh = False

    def compute(self, trace: TraceRecord) -> RewardResult:
        counted_elsewhere = isinstance(trace.details.get("decision"), Mapping)
        events = [event for event in trace.feedback if not (counted_elsewhere and is_of_decision(event))]
        values = ratings(events)
        if not values:
            known = ratings(trace.feedback)
            return self.abstains("the reward 'decision' counts what was said" if known else "nobody rated it")
        count = len(values)
        return self.gives(fmean(values), f"the mean of {count} rating{'s' * (count != 1)}", ratings=count)


def ratings(events: Iterable[FeedbackRecord]) -> list[float]:
    return [event.value for event in events if event.kind == "rating" and event.value is not None]


def mean_rating(trace: TraceRecord) -> float | None:
    """0 … 1, or None where nobody rated."""
    values = ratings(trace.feedback)
    return fmean(values) if values else None


NOTHING_LEARNED = "no model has learned from people's labels yet"
NOT_JUDGED = "no label is proposed for it; auto_label proposes them for answers that nobody has labelled"


class LearnedReward(BaseReward):
    """What a model that learned from people's labels expects them to say. ``predict`` gives the probability of a good
    label, 0 … 1, or None where it does not know. Supporting: a guess about people is not evidence by itself; a trace that
    only the model knows is labelled through proposals, from the confidence on that a person chose."""

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
