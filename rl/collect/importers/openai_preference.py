"""OpenAI's preference data: ``{"input": {"messages", "tools"}, "preferred_output": [...], "non_preferred_output": [...]}``.

Two answers to one prompt, and a comparison of them."""

from functools import partial
from typing import Any

from rl.collect.importers import chat
from rl.collect.importers.fields import Refused, obj, others
from rl.collect.importers.rows import SUFFIXES, records  # noqa: F401  SUFFIXES, for those who ask for it
from rl.collect.traces.imported import ImportedTrace

_BETTER, _WORSE = "preferred_output", "non_preferred_output"
_READ_AS = {"input": "the chat before the answer", _BETTER: "the better answer", _WORSE: "the worse answer"}


def preference(row: dict[str, Any], where: str) -> list[ImportedTrace]:
    """Raises Refused."""
    for name in ("input", _BETTER, _WORSE):
        if name not in row:
            raise Refused(f"has no {name}")
    prompt_input = obj(row, "input")
    details = {**others(prompt_input, ("messages",)), **others(row, ("input", _BETTER, _WORSE))}
    better, worse = (
        chat.talk(_whole(prompt_input.get("messages"), row[name], name), name) for name in (_BETTER, _WORSE)
    )
    return chat.pair(where, better, worse, details)


def _whole(prompt: object, answer: object, name: str) -> list[Any]:
    if not isinstance(prompt, list) or not prompt:
        raise Refused("input.messages must be a list of messages")
    if not isinstance(answer, list) or not answer:
        raise Refused(f"{name} must be a list of messages")
    return chat.follow(prompt, answer, name)


read = partial(records, parse=preference, columns=_READ_AS)
