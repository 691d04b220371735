"""Data sets as ToolBoxV2 has them: single answers that are good or bad, for KTO, and several answers to one question with
their rewards, for GRPO. A prompt is one text, ``System\\n\\nUser: query``.

ToolBoxV2 invents a worse answer where there is only one, and writes the prompt of a group in small letters. Neither is done
here: a group needs two real answers, and its prompt is as it was asked."""

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Generic, TypeVar

from rl.base.errors import BadFile
from rl.base.files import replacing
from rl.base.leaves import leaf
from rl.base.names import require_known
from rl.base.outside_files import read_text
from rl.base.records import Message
from rl.data_formatter.jsonl import json_lines
from rl.from_systems.toolbox.records import ExecutionTrace
from rl.from_systems.toolbox.reward_engine import RewardEngine

FORMATS = ("jsonl", "json")
SEED = 42
_USER = "User: "
_BETWEEN = f"\n\n{_USER}"


def prompt_text(query: str, system_prompt: str = "") -> str:
    return f"{system_prompt}{_BETWEEN}{query}" if system_prompt else f"{_USER}{query}"


def messages_of(prompt: Any) -> list[Message]:
    """Back to messages; a prompt that is a list of messages stays what it is."""
    if not isinstance(prompt, str):
        return list(prompt)
    system, between, query = prompt.partition(_BETWEEN)
    if not between:
        return [Message(role="user", content=prompt.removeprefix(_USER))]
    return [Message(role="system", content=system), Message(role="user", content=query)]


class Example:
    def to_dict(self) -> dict[str, Any]:
        return asdict(self)  # type: ignore[call-overload]  # they are all dataclasses


Kind = TypeVar("Kind", bound=Example)


class Examples(Generic[Kind]):
    """To and from files, as JSON lines or as one JSON list, and as a data set of Hugging Face."""

    kind: type[Kind]

    def save_dataset(self, examples: Sequence[Kind], output_path: Path | str, format: str = "jsonl") -> None:
        """The file appears whole or not at all. Raises UsageError for an unknown format."""
        require_known("format", format, FORMATS)
        rows = [json.dumps(example.to_dict(), ensure_ascii=False) for example in examples]
        target = Path(output_path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as file:
            file.write("".join(f"{row}\n" for row in rows) if format == "jsonl" else f"[{', '.join(rows)}]\n")

    def load_dataset(self, input_path: Path | str, format: str = "jsonl") -> list[Kind]:
        """Raises BadFile, and UsageError for an unknown format."""
        require_known("format", format, FORMATS)
        source = Path(input_path)
        try:
            rows = [row for _, row in json_lines(source)] if format == "jsonl" else json.loads(read_text(source))
            return [self.kind(**row) for row in rows]
        except (TypeError, ValueError, RecursionError) as error:
            raise BadFile(source, f"holds no {self.kind.__name__}: {error}") from error

    def to_hf_dataset(self, examples: Sequence[Kind]) -> Any:
        """A ``datasets.Dataset``. Raises UsageError where the package is not installed."""
        return leaf("datasets").Dataset.from_list([example.to_dict() for example in examples])


@dataclass
class KTOExample(Example):
    prompt: str
    completion: str
    label: bool


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
        random.Random(SEED).shuffle(examples)  # noqa: S311  nothing is kept secret by it
        good = [example for example in examples if example.label]
        bad = [example for example in examples if not example.label]
        if balance and (most := min(len(good), len(bad))):
            kept = {id(example) for example in (*good[:most], *bad[:most])}
            examples = [example for example in examples if id(example) in kept]
        return examples[:max_examples]

    def get_statistics(self, examples: Sequence[KTOExample]) -> dict[str, Any]:
        good = sum(example.label for example in examples)
        return {"total": len(examples), "positive": good, "negative": len(examples) - good}


@dataclass
class GRPOExample(Example):
    prompt: str
    completions: list[str]
    rewards: list[float]
    """Each as (reward - mean) / standard deviation of the group."""


class GRPODatasetBuilder(Examples[GRPOExample]):
    kind = GRPOExample

    def __init__(
        self, reward_engine: RewardEngine | None = None, num_completions: int = 4, system_prompt: str = ""
    ) -> None:
        self.reward_engine = reward_engine or RewardEngine()
        self.num_completions, self.system_prompt = num_completions, system_prompt

    def group_traces(self, traces: Iterable[ExecutionTrace]) -> dict[str, list[ExecutionTrace]]:
        """By the question's first 200 characters; case and white space do not count. The same answer counts once."""
        groups: dict[str, dict[str, ExecutionTrace]] = {}
        for trace in traces:
            if trace.final_response.strip():
                key = " ".join(trace.user_query.lower().split())[:200]
                groups.setdefault(key, {}).setdefault(trace.final_response.strip(), trace)
        return {key: list(answers.values()) for key, answers in groups.items()}

    def build_dataset(
        self,
        traces: Iterable[ExecutionTrace],
        min_group_size: int = 2,
        max_examples: int | None = None,
        include_singles: bool = False,
    ) -> list[GRPOExample]:
        """``include_singles`` changes nothing: an answer alone is better than none, and worse than none."""
        examples = []
        for whole in self.group_traces(traces).values():
            if len(whole) >= max(2, min_group_size):
                group = whole[: self.num_completions]
                prompt = prompt_text(group[0].user_query, self.system_prompt)
                rewards = self.reward_engine.compute_for_group(group)
                examples.append(GRPOExample(prompt, [trace.final_response for trace in group], rewards))
        return examples[:max_examples]

    def get_statistics(self, examples: Sequence[GRPOExample]) -> dict[str, Any]:
        sizes = [len(example.completions) for example in examples]
        return {"total": len(sizes), "total_completions": sum(sizes), "avg_group_size": fmean(sizes) if sizes else 0.0}
