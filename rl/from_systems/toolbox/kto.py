"""Single answers that are good or bad, for KTO."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rl.from_systems.toolbox.example_files import Examples
from rl.from_systems.toolbox.prompts import prompt_text
from rl.from_systems.toolbox.records import ExecutionTrace
from rl.from_systems.toolbox.reward_engine import RewardEngine

SEED = 42


@dataclass
class KTOExample:
    prompt: str
    completion: str
    label: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class KTODatasetBuilder(Examples[KTOExample]):
    """The label is a person's, else whether the combined reward reaches the threshold."""

    kind = KTOExample

    def __init__(
        self, reward_engine: RewardEngine | None = None, reward_threshold: float = 0.6, system_prompt: str = ""
    ) -> None:
        self.reward_engine = reward_engine or RewardEngine()
        self.reward_threshold, self.system_prompt = reward_threshold, system_prompt

    def trace_to_example(self, trace: ExecutionTrace) -> KTOExample | None:
        """None for an empty answer, and where neither a person nor a reward says anything."""
        label = trace.label
        if label is None:
            label = self.reward_engine.get_binary_label(trace, self.reward_threshold)
        if label is None or not trace.final_response.strip():
            return None
        return KTOExample(prompt_text(trace.user_query, self.system_prompt), trace.final_response, label)

    def build_dataset(
        self, traces: Iterable[ExecutionTrace], balance: bool = True, max_examples: int | None = None
    ) -> list[KTOExample]:
        """``balance``: as many good ones as bad ones, where there are both. Shuffled, always in the same way."""
        examples = [example for trace in traces if (example := self.trace_to_example(trace))]
        chance = random.Random(SEED)  # noqa: S311  nothing is kept secret by it
        chance.shuffle(examples)
        if balance:
            examples = _balance(examples)
        return examples[:max_examples]

    def get_statistics(self, examples: Sequence[KTOExample]) -> dict[str, Any]:
        good = sum(example.label for example in examples)
        return {"total": len(examples), "positive": good, "negative": len(examples) - good}


def _balance(examples: list[KTOExample]) -> list[KTOExample]:
    good = [example for example in examples if example.label]
    bad = [example for example in examples if not example.label]
    most = min(len(good), len(bad))
    if not most:
        return examples
    kept = {id(example) for example in (*good[:most], *bad[:most])}
    return [example for example in examples if id(example) in kept]
