"""TRL's dataset forms, plain and conversational, told apart by their columns.

- ``messages``: one answer, the last
- ``prompt``, ``completion``: one answer; a ``label`` (KTO) is a thumb
- ``prompt``, ``chosen``, ``rejected``: two answers and a comparison; without ``prompt`` it is what both begin with
- ``prompt``, ``completions``, ``rewards`` (GRPO): one answer each, with its reward as the outcome ``reward``
- ``prompt``, ``completions``, ``labels``: the steps of one answer, with a label each
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from os.path import commonprefix
from pathlib import Path
from typing import Any

from rl.base.records import ReasoningStep
from rl.collect.importers import chat
from rl.collect.importers.chat import RATER, Talk
from rl.collect.importers.fields import Refused, number, others
from rl.collect.importers.rows import SUFFIXES, Record, Rejected, records
from rl.collect.traces.imported import ImportedFeedback, ImportedTrace

__all__ = ["SUFFIXES", "read"]
_SYSTEM = "system:import"
"""Rewards come from programs."""
_COLUMNS = ("messages", "prompt", "completion", "label", "chosen", "rejected", "completions", "rewards", "labels")


def read(path: Path) -> Iterator[Record | Rejected]:
    """Raises BadFile."""
    return records(path, _row)


def _row(row: dict[str, Any], where: str) -> list[ImportedTrace]:
    columns = {name for name in _COLUMNS if row.get(name) is not None}
    details = others(row, _COLUMNS)
    if {"chosen", "rejected"} <= columns:
        prompt, better, worse = (
            _implicit(row) if "prompt" not in columns else (row["prompt"], row["chosen"], row["rejected"])
        )
        return chat.pair(where, _talk(prompt, better, "chosen"), _talk(prompt, worse, "rejected"), details)
    if {"prompt", "completions"} <= columns:
        return list(_completions(row, where, details))
    if {"prompt", "completion"} <= columns:
        feedback = (_thumb(row["label"]),) if "label" in columns else ()
        return [chat.trace(where, _talk(row["prompt"], row["completion"], "completion"), details, feedback)]
    if "messages" in columns:
        return [chat.trace(where, chat.talk(row["messages"]), details)]
    raise Refused("has no answer; wanted are messages, completion, completions, or chosen and rejected")


def _talk(prompt: object, answer: object, field: str) -> Talk:
    """Text on either side stands for one message."""
    prompt_messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    answer_messages = [{"role": "assistant", "content": answer}] if isinstance(answer, str) else answer
    if not isinstance(prompt_messages, list) or not prompt_messages:
        raise Refused("prompt must be text or a list of messages")
    if not isinstance(answer_messages, list) or not answer_messages:
        raise Refused(f"{field} must be text or a list of messages")
    return chat.talk([*prompt_messages, *answer_messages], field)


def _thumb(label: object) -> ImportedFeedback:
    if label not in (True, False):
        raise Refused(f"label must be true or false, not {label!r:.50}")
    return ImportedFeedback(kind="rating", rater=RATER, scale="thumb", value=float(bool(label)))


def _implicit(row: dict[str, Any]) -> tuple[Any, Any, Any]:
    """What both answers begin with is the prompt; of texts whole words only."""
    chosen, rejected = row["chosen"], row["rejected"]
    if isinstance(chosen, str) and isinstance(rejected, str):
        same = commonprefix([chosen, rejected])
        shared: Any = same[: max(same.rfind(" "), same.rfind("\n"), 0)]
    elif isinstance(chosen, list) and isinstance(rejected, list):
        shared = [
            message for message, _ in takewhile(lambda both: both[0] == both[1], zip(chosen, rejected, strict=False))
        ]
    else:
        raise Refused("chosen and rejected must both be text, or both lists of messages")
    if not shared:
        raise Refused("has no prompt, and chosen and rejected begin with nothing in common")
    return shared, chosen[len(shared) :], rejected[len(shared) :]


# --- groups and steps --------------------------------------------------------------------------------------------------


def _completions(row: dict[str, Any], where: str, details: dict[str, Any]) -> Iterator[ImportedTrace]:
    completions = row["completions"]
    if not isinstance(completions, list) or not completions:
        raise Refused("completions must be a list with at least one answer")
    if row.get("labels") is not None:
        yield _stepwise(row, where, details)
        return
    rewards = _beside(row, "rewards")
    for index, completion in enumerate(completions):
        value = None if rewards is None else number({"rewards": rewards[index]}, "rewards")
        outcome = ImportedFeedback(kind="outcome", rater=_SYSTEM, metric="reward", value=value)
        talk = _talk(row["prompt"], completion, f"completions[{index}]")
        yield chat.trace(where, talk, details, (outcome,) if value is not None else ())


def _stepwise(row: dict[str, Any], where: str, details: dict[str, Any]) -> ImportedTrace:
    steps, labels = row["completions"], _beside(row, "labels")
    if not all(isinstance(step, str) for step in steps):
        raise Refused("completions with labels are the steps of one answer, and must be texts")
    talk = _talk(row["prompt"], "\n".join(steps), "completions")
    thoughts = tuple(ReasoningStep(step, step_type="step") for step in steps)
    whole = Talk(talk.prompt, talk.response, reasoning_steps=thoughts)
    return chat.trace(where, whole, {**details, "labels": labels})


def _beside(row: dict[str, Any], name: str) -> list[Any] | None:
    """A list as long as the answers."""
    values = row.get(name)
    if values is None:
        return None
    if not isinstance(values, list) or len(values) != len(row["completions"]):
        raise Refused(f"{name} must be a list as long as completions")
    return values
