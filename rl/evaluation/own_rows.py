"""Rows from a file of one's own, in the place of held-out ones: pairs, or prompts with their right answers. Prompts that one
of the compared versions has learned from are left out."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rl.base.errors import BadFile
from rl.base.records import Message
from rl.data_formatter.jsonl import json_lines
from rl.data_formatter.runs import messages_of
from rl.evaluation.held_out import HeldOut, keys_learned
from rl.models import ModelVersion, TrainingSet, prompt_key

ROLES = {"prompt": "user", "chosen": "assistant", "rejected": "assistant"}
"""Text stands for one message of this role."""
EXPECTED = "expected"
"""In the details of a row: the right answer, an object."""


def read_pairs(path: Path, *compared: ModelVersion | None) -> HeldOut:
    """JSON lines with ``prompt``, ``chosen`` and ``rejected``, each a text or a list of messages; other fields are ignored.
    Raises BadFile that names the line and the field."""
    rows = []
    for where, value in _objects(path):
        row = {name: _as_messages(value.get(name), role) for name, role in ROLES.items()}
        if wrong := [name for name, messages in row.items() if messages is None]:
            raise BadFile(path, f"{wrong[0]} must be a text or a list of messages", where)
        if row["chosen"] == row["rejected"]:
            raise BadFile(path, "chosen and rejected are the same", where)
        rows.append({**row, "prompt_key": prompt_key(row["prompt"] or [])})
    if not rows:
        raise BadFile(path, "has no line with a pair")
    return _without_learned(rows, *compared)


def has_answers(path: Path) -> bool:
    """Whether the first line has a completion, and is not a pair. Raises BadFile."""
    _, first = next(json_lines(path), (0, None))
    return isinstance(first, Mapping) and "completion" in first and "chosen" not in first


def read_answers(path: Path, *compared: ModelVersion | None) -> HeldOut:
    """JSON lines with ``prompt``, a text, also with marks of who speaks, or a list of messages, and ``completion``, a JSON
    object or its text; ``reward``, a number, is kept, and other fields are ignored. Raises BadFile that names the line and
    the field."""
    rows = []
    for where, value in _objects(path):
        prompt, reward = value.get("prompt"), value.get("reward")
        messages = messages_of(prompt) if isinstance(prompt, str) and prompt else _as_messages(prompt, "user")
        if not messages:
            raise BadFile(path, "prompt must be a text or a list of messages", where)
        expected = _as_object(value.get("completion"))
        if expected is None:
            raise BadFile(path, "completion must be a JSON object, or its text", where)
        if reward is not None and (not isinstance(reward, (int, float)) or isinstance(reward, bool)):
            raise BadFile(path, "reward must be a number", where)
        row = {"prompt": messages, "prompt_key": prompt_key(messages), "details": {EXPECTED: expected}}
        rows.append({**row, "reward": None if reward is None else float(reward)})
    return _without_learned(rows, *compared)


def _objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, value in json_lines(path):
        if not isinstance(value, dict):
            raise BadFile(path, "a line must be one JSON object", f"line {number}")
        yield f"line {number}", value


def _as_messages(value: object, role: str) -> list[Message] | None:
    """A text, or a list of messages; None for anything else."""
    if isinstance(value, str) and (value or role == "assistant"):
        return [Message(role=role, content=value)]
    if not isinstance(value, list) or not value:
        return None
    messages = [message for message in value if isinstance(message, dict) and {"role", "content"} <= message.keys()]
    texts = all(isinstance(message["role"], str) and isinstance(message["content"], str) for message in messages)
    if len(messages) < len(value) or not texts:
        return None
    return [Message(role=message["role"], content=message["content"]) for message in messages]


def _as_object(completion: object) -> dict[str, Any] | None:
    if isinstance(completion, str):
        try:
            completion = json.loads(completion)
        except (ValueError, RecursionError):
            return None
    return completion if isinstance(completion, dict) and completion else None


def _without_learned(rows: list[dict[str, Any]], *compared: ModelVersion | None) -> HeldOut:
    sets = TrainingSet.objects.filter(runs__version__in=[version.trained for version in compared if version])
    learned = keys_learned(sets)
    unseen = [row for row in rows if row["prompt_key"] not in learned]
    return HeldOut(unseen, share=1.0, learned=len(rows) - len(unseen))
