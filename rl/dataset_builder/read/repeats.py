"""How often people disagree with each other, or with themselves, about the same answer or the same two answers.

Let an answer have n >= 2 ratings, u of them good and d bad. One of its ratings, drawn by lot, disagrees with another one,
drawn by lot, with probability 2 u d / (n (n - 1)). Weighted by n, over all such answers:

    D = sum 2 u d / (n - 1) / sum n

Where each rating is the wrong way round with probability e, whatever the answer, two disagree with probability
2 e (1 - e), so that

    e = (1 - sqrt(1 - 2 D)) / 2

Picks between the same two answers count as ratings of those two. Ties say nothing."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from rl.config.automatic import Repeats
from rl.dataset_builder.frozen.splitting import Split
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.read.files import FileSource
from rl.dataset_builder.read.groups import PromptGroup, Tally
from rl.dataset_builder.read.ratings import DatabaseSource
from rl.models import Agent

MOST = 0.4
"""Flip rate that is given where people disagree half of the time, or more: nothing could be learned from such ratings."""


def count_repeats(
    agent: Agent, options: DataOptions, files: tuple[str | Path, str | Path | None] | None = None
) -> Repeats:
    """Reads the ratings of prompts that are not held out. ``files``: Command Center's, instead of the database."""
    source = FileSource(*files) if files else DatabaseSource(agent, weigh=False)
    split = Split(agent, options.val_split)
    trained = (group for group in source.groups(Tally()) if not split.is_held_out(group.split_key))
    return flip_rate(chain.from_iterable(map(_votes, trained)))


def flip_rate(votes: Iterable[tuple[float, float]]) -> Repeats:
    """``votes``: of each answer or pair, how many say one thing and how many the other."""
    repeats = ratings = 0
    disagreeing = 0.0
    for agreeing, others in votes:
        count = agreeing + others
        if count >= 2:
            repeats, ratings = repeats + int(count) - 1, ratings + int(count)
            disagreeing += 2 * agreeing * others / (count - 1)
    if not ratings:
        return Repeats(0, 0.0)
    rate = (1 - math.sqrt(max(0.0, 1 - 2 * disagreeing / ratings))) / 2
    return Repeats(repeats, round(min(rate, MOST), 4))


def _votes(group: PromptGroup) -> Iterator[tuple[float, float]]:
    yield from ((answer.up, answer.down) for answer in group.answers)
    picked: dict[tuple[str, str], Counter[str]] = {}
    for preference in group.direct:
        low, high = sorted((preference.chosen.strip(), preference.rejected.strip()))
        picked.setdefault((low, high), Counter())[preference.chosen.strip()] += 1
    yield from ((picks[low], picks[high]) for (low, high), picks in picked.items() if low != high)
