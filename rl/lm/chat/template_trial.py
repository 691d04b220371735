"""Tries a chat template before it is used, in a child with limits: one may loop for days, or write until memory is full.

A template that behaves here and not later is not found out: where it is used, a process is lost that may be ended."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from rl.base.errors import RatchetError
from rl.lm.chat import template_child

LARGEST: Final = 2**20
"""Characters of a template."""
_WALL_SECONDS: Final = 120
"""On a busy machine a few seconds of CPU take a while."""
_USER = {"role": "user", "content": "What is the sum of 2 and 3, and why?"}
_ASSISTANT = {"role": "assistant", "content": "It is 5."}
_TOOL = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}}
_CALL = {"id": "call00001", "type": "function", "function": {"name": "add", "arguments": {"a": 2, "b": 3}}}
_CHATS: Final[Sequence[Sequence[Mapping[str, Any]]]] = (
    [_USER],
    [{"role": "system", "content": "Be brief."}, _USER],
    [_USER, _ASSISTANT] * 20 + [_USER],
    [{"role": "user", "content": "long " * 4000}],
    [
        _USER,
        {"role": "assistant", "content": "", "tool_calls": [_CALL]},
        {"role": "tool", "name": "add", "tool_call_id": "call00001", "content": "5"},
    ],
)
_PROBES: Final = [
    {"messages": chat, "tools": tools, "add_generation_prompt": opening}
    for chat in _CHATS
    for tools in (None, [_TOOL])
    for opening in (True, False)
]


class TemplateExcess(Exception):
    """What a template takes too much of."""


def require_modest(template: str | Mapping[str, str] | None, whose: object, failure: type[RatchetError]) -> None:
    """``template``: a tokenizer's, or several by name. Raises ``failure`` for one that takes more time, memory or text than
    any chat needs; refusing a chat is a template's right."""
    for source in template.values() if isinstance(template, Mapping) else [template or ""]:
        if excess := _excess(source):
            raise failure(f"the chat template of {whose} cannot be used: {excess}")


def write_chats(
    template: str, chats: Sequence[Mapping[str, Any]], variables: Mapping[str, str], *, clock: bool = True
) -> list[dict[str, str]]:
    """For each chat ``{"text"}`` or ``{"refused"}``. ``chats``: the template's own variables; ``clock``: it may ask
    for the date. Raises TemplateExcess."""
    if len(template) > LARGEST:
        raise TemplateExcess(f"it has more than {LARGEST:,} characters")
    request = json.dumps({"template": template, "variables": variables, "clock": clock, "chats": chats})
    command = [sys.executable, "-I", str(Path(template_child.__file__))]
    try:
        done = subprocess.run(command, input=request.encode(), capture_output=True, env={}, timeout=_WALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise TemplateExcess(f"it takes more than {_WALL_SECONDS} seconds") from None
    if done.returncode < 0:  # the kernel ended it
        raise TemplateExcess(f"it takes more than {template_child.CPU_SECONDS} seconds or too much memory")
    try:
        written: Any = json.loads(done.stdout)
    except ValueError:
        words = done.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"]
        raise TemplateExcess(f"what tried it ended with code {done.returncode}: {words[-1]:.300}") from None
    if isinstance(written, dict):
        raise TemplateExcess(f"it takes too much {written['excess']} to write a chat")
    return list(written)


@lru_cache(maxsize=64)
def _excess(template: str) -> str:
    """Why it cannot be used; empty where it can. Each is tried once in a process."""
    try:
        if template:
            write_chats(template, _PROBES, {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"})
    except TemplateExcess as excess:
        return str(excess)
    return ""
