"""TRL's dataset forms, plain and conversational, and those of others with the same columns, told apart by their columns.

- ``messages``: one answer, the last
- ``prompt``, ``completion``: one answer
- ``prompt``, ``chosen``, ``rejected``: two answers and a comparison; without ``prompt`` it is what both begin with
- ``prompt``, ``completions``, ``rewards`` (GRPO): one answer each, with its reward as the outcome ``reward``
- ``prompt``, ``completions``, ``labels``: the steps of one answer, with a label each
- two answers and a verdict, or answers with ranks or scores: ``rl.collect.importers.rivals``; or what several people
  picked: ``rl.collect.importers.annotators``

A ``label`` of one answer (KTO) is a thumb. ``columns`` has the other names that columns may have, and what stands beside
them. An answer may be the whole chat."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import takewhile
from os.path import commonprefix
from typing import Any

from rl.base.records import ReasoningStep
from rl.collect.importers import chat, rivals
from rl.collect.importers.annotators import Choice, find_compared
from rl.collect.importers.chat import Talk
from rl.collect.importers.columns import ANSWER, CHOSEN, REJECTED, Columns, from_cell, is_rendered, turns_of
from rl.collect.importers.fields import Refused, number
from rl.collect.importers.rows import SUFFIXES, records  # noqa: F401  SUFFIXES, for those who ask for it
from rl.collect.traces.imported import ImportedFeedback, ImportedTrace

_SYSTEM = "system:import"
"""Rewards come from programs."""
_ELSEWHERE = {
    **dict.fromkeys(("conversations", "conversation"), "sharegpt"),
    "preferred_output": "openai_preference",
    **dict.fromkeys(("message_tree_id", "message_id", "thread"), "open_assistant"),
}
"""A column to the format that has it."""
_SENTENCE = 3
"""Words of a text that may be a question."""


def _row(row: dict[str, Any], where: str) -> list[ImportedTrace]:
    if compared := find_compared(row):
        columns = Columns(compared.row)
        *others, last = rivals.read_compared(columns, compared, where)
        read_as = {name: "what people picked" for name in row if name not in compared.row}
        return [*others, replace(last, columns={**columns.read_as, **read_as})]
    columns = Columns(row)
    *others, last = _answers(columns, where)
    return [*others, replace(last, columns=columns.read_as)]


def _answers(columns: Columns, where: str) -> list[ImportedTrace]:
    if columns.has(CHOSEN) and columns.has(REJECTED):
        return _pair(columns, where)
    if duel := rivals.find_duel(columns):
        return rivals.read_duel(columns, duel, where)
    if ranked := rivals.find_ranked(columns):
        return rivals.read_ranked(columns, ranked, where)
    if columns.has(["completions"]) and (before := columns.before()):
        return list(_completions(columns, before, where))
    if columns.has(ANSWER) and (before := columns.before()):
        answer = columns.take(ANSWER, "the answer")
        return [_one(columns, where, columns.talk(before, answer, "completion"))]
    if columns.has(["messages"]):
        return [_one(columns, where, columns.chat(["messages"]))]
    _refuse_foreign(columns)
    raise Refused("has no answer; wanted are messages, completion, completions, or chosen and rejected")


def _refuse_foreign(columns: Columns) -> None:
    """Raises Refused for a row of another format, with its name."""
    for name, format_name in _ELSEWHERE.items():
        if columns.has([name]):
            raise Refused(f"has {name}: import it with --format {format_name}")


def _one(columns: Columns, where: str, talk: Talk) -> ImportedTrace:
    feedback = columns.feedback()
    return chat.trace(where, talk, columns.details(), feedback)


def _pair(columns: Columns, where: str) -> list[ImportedTrace]:
    better, worse = columns.take(CHOSEN, "the better answer"), columns.take(REJECTED, "the worse answer")
    are_messages = isinstance(better, dict) and isinstance(worse, dict)
    better, worse = ([better], [worse]) if are_messages else (better, worse)
    before = columns.before()
    if _ask_nothing(before) and are_messages:
        earlier = columns.take(["messages"], "the chat before the answer")
        before += earlier if isinstance(earlier, list) else []
    if not before:
        _refuse_foreign(columns)
    if _ask_nothing(before):
        shared, better, worse = _implicit(better, worse, columns)
        before = [*before, *shared]
    talks = columns.talk(before, better, "chosen"), columns.talk(before, worse, "rejected")
    picks: list[tuple[str, Choice]] = [(columns.rater(), "left")]
    return chat.pair(where, *talks, columns.details(), picks=picks)


def _ask_nothing(messages: list[Any]) -> bool:
    return all(isinstance(message, dict) and message.get("role") == "system" for message in messages)


def _implicit(better: Any, worse: Any, columns: Columns) -> tuple[list[Any], Any, Any]:
    """What both answers begin with is the prompt; of texts whole words only, of chats nothing inside a turn."""
    if isinstance(better, str) and isinstance(worse, str):
        better, worse = _turns(better, "chosen"), _turns(worse, "rejected")
    if isinstance(better, list) and isinstance(worse, list):
        same = takewhile(lambda both: both[0] == both[1], zip(better, worse, strict=False))
        count = sum(1 for _ in same)
        if not count:
            raise Refused("has no prompt, and chosen and rejected begin with nothing in common")
        return [], better, worse
    if not isinstance(better, str) or not isinstance(worse, str):
        raise Refused("chosen and rejected must both be text, or both lists of messages")
    # Words that two answers share are their prompt only where nothing else may be it.
    if is_rendered(better):
        raise Refused("chosen is a chat that a chat template wrote as one text: give its messages")
    for name, value in columns.details().items():
        if isinstance(value, str) and len(value.split()) >= _SENTENCE and value.strip() not in better:
            raise Refused(
                f"has no prompt that is known as one; if {name!r:.50} is the question, name the column prompt"
            )
    same_text = commonprefix([better, worse])
    shared = same_text[: max(same_text.rfind(" "), same_text.rfind("\n"), 0)]
    if not shared.strip():
        raise Refused("has no prompt, and chosen and rejected begin with nothing in common")
    return [{"role": "user", "content": shared}], better[len(shared) :], worse[len(shared) :]


def _turns(text: str, field: str) -> list[dict[str, str]] | str:
    turns = turns_of(text)
    if turns and turns[-1]["role"] != "assistant":
        raise Refused(f"{field} does not end with words of the assistant")
    return turns or text


def _completions(columns: Columns, before: list[Any], where: str) -> Iterator[ImportedTrace]:
    completions = columns.take(["completions"], "answers")
    if not isinstance(completions, list) or not completions:
        raise Refused("completions must be a list with at least one answer")
    if columns.has(["labels"]):
        yield _stepwise(columns, before, completions, where)
        return
    rewards = _beside(completions, columns.take(["rewards"], "rewards"), "rewards")
    details = columns.details()
    for index, completion in enumerate(completions):
        value = None if rewards is None else number({"rewards": rewards[index]}, "rewards")
        outcome = ImportedFeedback(kind="outcome", rater=_SYSTEM, metric="reward", value=value)
        talk = columns.talk(before, completion, f"completions[{index}]")
        yield chat.trace(where, talk, details, (outcome,) if value is not None else ())


def _stepwise(columns: Columns, before: list[Any], steps: list[Any], where: str) -> ImportedTrace:
    labels = _beside(steps, columns.take(["labels"], "labels of the steps"), "labels")
    if not all(isinstance(step, str) for step in steps):
        raise Refused("completions with labels are the steps of one answer, and must be texts")
    talk = columns.talk(before, "\n".join(steps), "completions")
    thoughts = tuple(ReasoningStep(step, step_type="step") for step in steps)
    whole = Talk(talk.prompt, talk.response, reasoning_steps=thoughts)
    return chat.trace(where, whole, {**columns.details(), "labels": labels})


def _beside(completions: list[Any], values: Any, name: str) -> list[Any] | None:
    """A list as long as the answers."""
    if values is None:
        return None
    if not isinstance(values, list) or len(values) != len(completions):
        raise Refused(f"{name} must be a list as long as completions")
    return values


read = partial(records, parse=_row, cell=from_cell)
