"""The file of a cross-fitted run: what adapters answered to the prompts that they had not learned from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from rl.base.records import GeneratedAnswer

UNSEEN: Final = "unseen.jsonl"


def unseen_line(prompt_key: str, answer: GeneratedAnswer) -> str:
    values = {"prompt_key": prompt_key, "answer": answer.text, "in": answer.tokens_in, "out": answer.tokens_out}
    return json.dumps(values, ensure_ascii=False) + "\n"


def read_unseen(file: Path) -> dict[str, GeneratedAnswer]:
    """By the key of the prompt; empty where there is no such file."""
    if not file.is_file():
        return {}
    lines = (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
    return {line["prompt_key"]: GeneratedAnswer(line["answer"], line["in"], line["out"]) for line in lines}
