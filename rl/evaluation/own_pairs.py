"""Pairs from a file of one's own, in the place of held-out ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rl.base.errors import BadFile
from rl.base.records import Message
from rl.data_formatter import read_training_rows
from rl.data_formatter.jsonl import json_lines
from rl.dataset_builder.frozen.files import TRAIN
from rl.evaluation.held_out import HeldOut
from rl.models import ModelVersion, TrainingSet, prompt_key

ROLES = {"prompt": "user", "chosen": "assistant", "rejected": "assistant"}
"""Text stands for one message of this role."""


def read_pairs(path: Path, *compared: ModelVersion | None) -> HeldOut:
    """JSON lines with ``prompt``, ``chosen`` and ``rejected``, each a text or a list of messages; other fields are ignored.
    Prompts that one of the versions has learned from are left out. Raises BadFile that names the line and the field."""
    rows = list(_rows(path))
    if not rows:
        raise BadFile(path, "has no line with a pair")
    return without_learned(rows, *compared)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    for number, value in json_lines(path):
        if not isinstance(value, dict):
            raise BadFile(path, "a line must be one JSON object", f"line {number}")
        row = {name: as_messages(value.get(name), role) for name, role in ROLES.items()}
        if wrong := [name for name, messages in row.items() if messages is None]:
            raise BadFile(path, f"{wrong[0]} must be a text or a list of messages", f"line {number}")
        if row["chosen"] == row["rejected"]:
            raise BadFile(path, "chosen and rejected are the same", f"line {number}")
        yield {**row, "prompt_key": prompt_key(row["prompt"] or [])}


def as_messages(value: object, role: str) -> list[Message] | None:
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


def without_learned(rows: Sequence[dict[str, Any]], *compared: ModelVersion | None) -> HeldOut:
    """All rows but those whose prompt one of the versions has learned from."""
    learned = set(_learned_keys(*compared))
    unseen = [row for row in rows if row["prompt_key"] not in learned]
    return HeldOut(unseen, share=1.0, learned=len(rows) - len(unseen))


def _learned_keys(*compared: ModelVersion | None) -> Iterator[str]:
    """The hashes of the words of prompts."""
    for training_set in TrainingSet.objects.filter(runs__version__in=[version for version in compared if version]):
        for row in read_training_rows(training_set.directory / TRAIN, training_set.method):
            yield row["split_key"]
