"""How many tokens rows have, what does not fit, and how to say so."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rl.base.errors import NotEnoughData, UsageError
from rl.base.records import Report

DROPPED_LIMIT = 0.2
"""Share of the rows that may be left out because their prompt is too long."""
_STEP = 64
"""Lengths that are advised are multiples of it."""
UNKNOWN_CONTEXT = 1 << 30
"""Tokens that a model reads whose configuration does not say how many."""
_REASON, _REASONS = 300, 5
"""Characters of a reason why rows are left out, and reasons that are logged."""
EncodedRow = dict[str, Any]
"""Lists of token ids: ``prompt_ids``, and for each answer of the row its own (``chosen_ids`` and ``rejected_ids``, or
``completion_ids``), where it has one; beside them its flags, numbers and scores. Instead of ids ``refused``, the reason, for
a chat that the template refuses."""


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """Limits of lengths, in tokens. Raises UsageError where no prompt can fit."""

    max_length: int
    context: int
    """Most tokens that the base model reads."""
    answer: int = 0
    """Kept free behind the prompt, for an answer that is to be generated."""

    def __post_init__(self) -> None:
        if self.prompt < 1:
            raise UsageError(
                f"max_new_tokens {self.answer} leaves no room for a prompt in max_length {self.most_tokens}: "
                "lower the one or raise the other"
            )

    @property
    def most_tokens(self) -> int:
        return min(self.max_length, self.context)

    @property
    def prompt(self) -> int:
        return self.most_tokens - max(1, self.answer)


@dataclass(slots=True)
class LengthCount:
    """What ``max_length`` and the chat template did to the rows that went by."""

    rows: int = 0
    dropped: int = 0
    """Their prompt leaves no room for an answer."""
    refused: Counter[str] = field(default_factory=Counter)
    """How many the chat template refuses, by its reason."""
    wordless: int = 0
    """The template drops words beside a tool call of theirs, which so are not learned."""
    thoughtless: int = 0
    """What they thought should be learned, and the template writes no thoughts."""
    cut: int = 0
    """At least one answer of the row lost its end."""
    longest_prompt: int = 0
    longest_row: int = 0
    """Tokens of prompt and longest answer."""

    def fit(self, row: EncodedRow, max_length: int) -> EncodedRow | None:
        """The row with its answers cut to ``max_length``, or None if its prompt alone fills it, or was refused."""
        if "refused" in row:
            self.rows += 1
            self.refused[row["refused"][:_REASON]] += 1
            return None
        self.wordless += bool(row.get("dropped_texts"))
        self.thoughtless += bool(row.get("dropped_thoughts"))
        prompt = len(row["prompt_ids"])
        answers = {name: ids for name, ids in row.items() if name.endswith("_ids") and name != "prompt_ids"}
        whole = prompt + max(map(len, answers.values()), default=0)
        self.rows += 1
        self.longest_prompt = max(self.longest_prompt, prompt)
        self.longest_row = max(self.longest_row, whole)
        if prompt >= max_length:
            self.dropped += 1
            return None
        self.cut += whole > max_length
        room = max_length - prompt
        return {**row, **{name: ids[:room] for name, ids in answers.items()}}

    def check(self, limits: TokenLimits, report: Report, about: str = "") -> None:
        """Reports how many rows are left out. Raises NotEnoughData where too many are too long, or all are refused.
        ``about``: stands before a number of tokens that was estimated."""
        for reason, count in self.refused.most_common(_REASONS):
            report("log", {"text": f"{count} of {self.rows} rows are left out: {reason}"})
        if self.wordless:
            text = f"{self.wordless} of {self.rows} rows lose words beside tool calls: the template drops them"
            report("log", {"text": text})
        if self.thoughtless:
            text = f"{self.thoughtless} of {self.rows} rows lose their thoughts: the template writes none"
            report("log", {"text": text})
        if self.rows and self.refused.total() == self.rows:
            raise NotEnoughData(f"no row can be used: {next(iter(self.refused))}")
        too_long = f"{self._too_long(limits)} (the longest has {about}{self.longest_prompt} tokens)"
        if self.dropped > DROPPED_LIMIT * self.rows:
            raise NotEnoughData(f"{too_long}; {self._way_out(limits, about)}")
        if self.dropped:
            report("log", {"text": f"{too_long}; they are left out"})

    def _too_long(self, limits: TokenLimits) -> str:
        prompts = f"{self.dropped} of {self.rows} prompts"
        if limits.answer:
            return (
                f"{prompts} have more than {limits.prompt} tokens, and leave no room for an answer of {limits.answer}"
            )
        if limits.context < limits.max_length:
            return f"{prompts} fill alone the {limits.context} tokens that the base model reads"
        return f"{prompts} fill max_length {limits.max_length} alone"

    def _way_out(self, limits: TokenLimits, about: str) -> str:
        needed = max(self.longest_row, self.longest_prompt + max(1, limits.answer))
        if needed <= limits.context:
            advised = min(-(-needed // _STEP) * _STEP, limits.context)
            return f"with max_length {about}{advised} every row would fit"
        raised = "raise max_length up to that and " if limits.max_length < limits.context else ""
        return (
            f"no max_length makes room for all, because the base model reads {limits.context} tokens: {raised}"
            "shorten or delete the longest prompts, or choose a base model that reads more"
        )


FEWEST_TOKENS = 16
TIMES = 1.5
"""An answer may be so many times as long as the longest stored one, which is far more than twice as long as most are."""


def room_for_an_answer(most: int, stored: Sequence[int]) -> int:
    """As long as the agent's answers may be, but no longer than answers to these prompts have any reason to be. ``stored``:
    tokens of theirs."""
    return min(most, max(FEWEST_TOKENS, round(TIMES * max(stored)))) if stored else most


def cut_whole(text: str) -> str:
    """Up to the end of the last whole sentence; all of a text without one."""
    ends = [match.end() for match in re.finditer(r"[.!?](?=\s|$)", text.strip())]
    return text.strip()[: ends[-1]] if ends else text.strip()
