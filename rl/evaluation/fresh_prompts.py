"""Prompts that versions answer afresh: held out by the same hash as every training set's, whether anybody rated an answer to
them or not."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

from rl.collect.command_center import widget_choice
from rl.data_formatter.runs import prompt_messages, tools_column
from rl.dataset_builder import Split
from rl.dataset_builder.read.runs import with_calls
from rl.dataset_builder.read.tools import OfferedTools
from rl.models import Agent, prompt_key

MOST_READ = 20_000
"""How many of an agent's answers are looked through, the newest first."""


def prompts_asked(agent: Agent, share: float, known: Collection[str], most: int) -> list[dict[str, Any]]:
    """At most so many of the newest prompts of the agent that a training set with this share holds out, each once, and none
    with a key in ``known``. As new questions come, old ones that decided before are asked no longer."""
    return list(islice(_newest(agent, share, set(known)), most))


def _newest(agent: Agent, share: float, known: set[str]) -> Iterator[dict[str, Any]]:
    """An agent that chooses widgets is asked as its templates say, and never by the bare question of a simulation. Tools are
    offered as in rows of training sets."""
    offered = OfferedTools(agent)
    split, chooses = Split(agent, share), agent.pair_type != Agent.PairType.PREFERENCE
    answers = agent.traces.order_by("-created_at", "id").values_list("prompt", "prompt_key", "details")
    for prompt, key, details in answers[:MOST_READ].iterator(chunk_size=500):
        if key in known or not _is_question(prompt) or (chooses and widget_choice(details, prompt)):
            continue
        known.add(key)
        if split.is_held_out(prompt_key(prompt)):
            details = details if isinstance(details, dict) else {}
            given = prompt_messages(with_calls(prompt, details))
            yield {"prompt": given, "prompt_key": key, "details": details, **tools_column(offered(details))}


def _is_question(prompt: Any) -> bool:
    return bool(prompt) and prompt[-1]["role"] == "user"
