"""How families of models write tool calls: text to an action and back."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from rl.environments.contract import Action, ToolRequest

DIALECTS = {
    "hermes": "rl.environments.dialects.hermes",
    "llama": "rl.environments.dialects.llama",
    "mistral": "rl.environments.dialects.mistral",
}
"""In the order in which they are tried on a model's own way of writing a call."""


class Dialect(Protocol):
    def read_action(self, text: str) -> Action:
        """``text`` has the dialect's special tokens and no end-of-turn token. Never raises."""

    def write_calls(self, calls: Sequence[ToolRequest]) -> str: ...


def dialect(name: str) -> Dialect:
    """``name``: a key of DIALECTS."""
    return cast(Dialect, import_module(DIALECTS[name]))
