"""Rows of rare classes, learned several times in a pass, where answers are of a closed set.

With sixty rows of one class and three of another a model is nearly always right that never says the other. Rows are
repeated by the square root of how much more frequent the most frequent class is (Mahajan et al., 2018, arXiv 1805.00932;
capped as by Gupta et al., 2019, arXiv 1908.03195): halfway between what people gave and all classes alike, since a few rows
that are read too often are learned by heart. Classes up to about twice as frequent as each other stay as they are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Final

from datasets import Dataset

from rl.config import ImitationConfig
from rl.data_formatter.answer_kinds import normalise
from rl.lm.encoding import answer_words
from rl.lm.own_tokens import plain
from rl.training.preparing import Start

MOST_TIMES: Final = 4


def repeat_rare(start: Start, good: Dataset) -> Dataset:
    """``good``: as ``good_rows`` makes it. As it is where answers are of no closed set, or the job wants it so."""
    config = start.job.config
    if start.job.kind != "closed" or not (isinstance(config, ImitationConfig) and config.balance_classes):
        return good
    texts = (answer_words(start.tokenizer, plain(row["answer_ids"])) for row in iter(good))
    classes = [normalise(text) for text in texts]
    repeats = count_repeats(Counter(classes))
    order = [number for number, name in enumerate(classes) for _ in range(repeats.get(name, 1))]
    return good.select(order) if repeats else good


def count_repeats(count: Mapping[str, int]) -> dict[str, int]:
    """Class to how often its rows are learned in a pass, where that is more than once."""
    most = max(count.values(), default=0)
    times = {name: min(MOST_TIMES, round(math.sqrt(most / number))) for name, number in count.items()}
    return {name: number for name, number in times.items() if number > 1}
