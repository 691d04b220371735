from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rl.data_formatter.pairing import CONTRADICTION, DUPLICATE, SAME_TEXT
from rl.dataset_builder.file_source import FileSource
from rl.dataset_builder.groups import Source, Tally
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.pairing import paired_groups
from rl.dataset_builder.selection import DatabaseSource
from rl.dataset_builder.shortage import Shortage
from rl.dataset_builder.splitting import is_held_out
from rl.models import Agent
from rl.records import PreferencePair


@dataclass(frozen=True, slots=True)
class Lengths:
    """Characters."""

    min: int
    median: int
    p95: int
    max: int


@dataclass(frozen=True, slots=True)
class Survey:
    """What ``freeze`` would write now. Nothing has been written."""

    ratings_read: int
    """All current feedback items, side-by-side picks and edited answers included."""
    ratings_usable: int
    """Those that take part in a pair."""
    prompts_read: int
    prompts: int
    """Those that give a pair."""
    train_pairs: int
    heldout_pairs: int
    train_prompts: int
    heldout_prompts: int
    skipped: Counter[str]
    """Reason to how often."""
    prompt_lengths: Lengths | None
    """None when there is no pair."""
    answer_lengths: Lengths | None
    contradictions: int
    """Answers that some raters liked and others did not, and texts preferred to each other both ways."""
    duplicates: int
    """Answers and preferences that say again what others said, and preferences between equal texts."""
    shortage: str
    """Why this is too little to train on; empty when it is enough."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"skipped": dict(self.skipped.most_common())}


def survey(agent: Agent, options: DataOptions) -> Survey:
    return _survey(agent, DatabaseSource(agent), options)


def survey_files(agent: Agent, data_path: str | Path, ratings_path: str | Path | None, options: DataOptions) -> Survey:
    """The same of Command Center's files. Raises BadFile for one that cannot be read."""
    return _survey(agent, FileSource(data_path, ratings_path), options)


def _survey(agent: Agent, source: Source, options: DataOptions) -> Survey:
    tally, shortage = Tally(), Shortage(options)
    pairs_on: Counter[bool] = Counter()
    prompts_on: Counter[bool] = Counter()
    prompt_lengths, answer_lengths = array("q"), array("q")
    for group, pairs in paired_groups(source, options, tally):
        held_out = is_held_out(agent.name, group.split_key, options.val_split)
        shortage.saw(group, len(pairs))
        pairs_on[held_out] += len(pairs)
        prompts_on[held_out] += bool(pairs)
        for pair in pairs:
            prompt_lengths.append(_prompt_length(pair))
            answer_lengths.extend((len(pair.chosen), len(pair.rejected)))
    skipped = tally.skipped
    return Survey(
        ratings_read=tally.read,
        ratings_usable=tally.usable,
        prompts_read=tally.prompts_read,
        prompts=tally.prompts,
        train_pairs=pairs_on[False],
        heldout_pairs=pairs_on[True],
        train_prompts=prompts_on[False],
        heldout_prompts=prompts_on[True],
        skipped=skipped,
        prompt_lengths=_lengths(prompt_lengths),
        answer_lengths=_lengths(answer_lengths),
        contradictions=tally.disputed + skipped[CONTRADICTION],
        duplicates=skipped[DUPLICATE] + skipped[SAME_TEXT],
        shortage=shortage.problem(pairs_on[False], pairs_on[True], tally),
    )


def _prompt_length(pair: PreferencePair) -> int:
    if isinstance(pair.prompt, str):
        return len(pair.prompt)
    return sum(len(message["content"]) for message in pair.prompt)


def _lengths(values: array[int]) -> Lengths | None:
    if not values:
        return None
    ranked = sorted(values)
    last = len(ranked) - 1
    return Lengths(ranked[0], ranked[last // 2], ranked[round(last * 0.95)], ranked[last])
