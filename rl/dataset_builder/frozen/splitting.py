"""Which prompts are kept for testing.

A prompt is held out if the hash of the agent's name and its words, read as a fraction of 2^64, is below the share
asked for. Nothing else enters: no seed, no time, no other prompt. So a prompt that was held out once stays held out,
and no version is ever tested on what an earlier one learned from. Two consequences. With few prompts a side can be
empty: then the set says so, and nothing is moved across to fill it. A smaller share holds out a subset of what a
larger one does, so lowering it lets prompts into training but raising it holds out prompts that earlier versions may
have learned from; the evaluation leaves those out.

Beside these, prompts are held out whose traces say so (``details["split"]`` is ``heldout``), whatever the share."""

import hashlib
from functools import cached_property

from rl.models import Agent, Trace, prompt_key
from rl.models.traces import HELD_OUT, SPLIT


class Split:
    """An agent's prompts: those to train on, and those that are held out."""

    def __init__(self, agent: Agent, share: float) -> None:
        self._agent, self._share = agent, share
        self._last: tuple[str | None, bool] = (None, False)

    def is_held_out(self, split_key: str) -> bool:
        if split_key != self._last[0]:  # rows of one prompt follow each other
            held_out = is_held_out(self._agent.name, split_key, self._share) or split_key in self._marked
            self._last = (split_key, held_out)
        return self._last[1]

    @cached_property
    def _marked(self) -> frozenset[str]:
        marked = Trace.objects.filter(**{"agent": self._agent, f"details__{SPLIT}": HELD_OUT}).order_by()
        return frozenset(prompt_key(prompt) for prompt in marked.values_list("prompt", flat=True).iterator() if prompt)


def is_held_out(agent_name: str, split_key: str, share: float) -> bool:
    """``split_key``: of a PromptGroup, the hash of the prompt's messages."""
    return stable_hash(agent_name, split_key) < share * 2**64


def stable_hash(agent_name: str, split_key: str) -> int:
    """0 to 2^64 - 1: the first 8 bytes of SHA-256, big-endian. Agents whose names differ in case only are one agent."""
    digest = hashlib.sha256(f"{agent_name.lower()}\0{split_key}".encode()).digest()
    return int.from_bytes(digest[:8], "big")
