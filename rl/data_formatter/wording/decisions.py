"""How an agent is asked for a decision, where what is stored of the question is the state alone, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rl.base.leaves import import_name
from rl.base.records import Message

DecisionPrompt = Callable[[Mapping[str, Any], str], list[Message] | None]
"""From a state and the agent's own system text, which may be empty; None for a state of another shape."""
DECISION_PROMPTS: dict[str, str] = {}
"""Type of agent, in capitals, to the dotted path of a DecisionPrompt. ``rl.from_systems`` adds some when the app starts."""


def ask_for_decision(agent_type: str, prompt: Sequence[Message], system: str = "") -> tuple[Message, ...]:
    """``prompt`` in the words of its type, where it is one user message with a state that the type knows; else as it is."""
    path = DECISION_PROMPTS.get(agent_type.upper())
    if path is None or len(prompt) != 1 or prompt[0]["role"] != "user":
        return tuple(prompt)
    try:
        state = json.loads(prompt[0]["content"])
    except (ValueError, RecursionError):
        return tuple(prompt)
    template: DecisionPrompt = import_name(path)
    asked = template(state, system) if isinstance(state, Mapping) else None
    return tuple(asked or prompt)
