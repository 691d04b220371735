"""The held-out rows of a training set as contrasts: a better and a worse answer that a model should tell apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rl.base.errors import UsageError
from rl.base.leaves import leaf_name
from rl.base.messages import tools_of
from rl.config import find_rows
from rl.config.methods import all_rows
from rl.data_formatter.opinions import stable_hash

Row = Mapping[str, Any]


def contrasts(method: str, rows: Iterable[Row]) -> list[Row]:
    """Rows with ``prompt``, ``chosen``, ``rejected`` and ``prompt_key``, and with ``rejected_prompt`` where the worse answer
    is one to another prompt. Rows that are asked or played stay as they are. Raises UsageError for rows of a method that
    cannot be told apart."""
    kind = find_rows(method)
    if not kind.measure:
        known = ", ".join(name for name, rows in all_rows().items() if rows.measure)
        raise UsageError(f"held-out rows for {method} cannot be compared; known: {known}")
    contrast: Callable[[Iterable[Row]], list[Row]] = leaf_name(kind.contrast) if kind.contrast else list
    return contrast(rows)


def of_labels(rows: Iterable[Row]) -> list[Row]:
    """A good answer with a bad one to the same prompt where there is one; else the answers to two prompts, one with good
    answers only and one with bad ones only, matched by a hash. Each prompt is in one match, so matches are independent."""
    prompts: defaultdict[str, dict[bool, list[Row]]] = defaultdict(lambda: {True: [], False: []})
    for row in rows:
        prompts[row["prompt_key"]][row["label"]].append(row)
    matches = [contrast for both in prompts.values() if both[True] and both[False] for contrast in _match(both)]
    # in an order that has nothing to do with what the prompts say, and stays when others are added
    ordered = [prompts[key] for key in sorted(prompts, key=stable_hash)]
    good, bad = ([both[label] for both in ordered if not both[not label]] for label in (True, False))
    for liked, disliked in zip(good, bad, strict=False):
        matches += _match({True: liked, False: disliked})
    return matches


def of_mixed(rows: Iterable[Row]) -> list[Row]:
    """Pairs as they are, and of single answers what ``of_labels`` makes of them; of prompts with a pair, the pairs alone."""
    rows = list(rows)
    pairs = [row for row in rows if row["chosen"] and row["rejected"]]
    paired = {row["prompt_key"] for row in pairs}
    singles = [
        {**row, "completion": row["chosen"] or row["rejected"], "label": bool(row["chosen"])}
        for row in rows
        if not (row["chosen"] and row["rejected"]) and row["prompt_key"] not in paired
    ]
    return pairs + of_labels(singles)


def of_groups(rows: Iterable[Row]) -> list[Row]:
    """The answer with the most reward beside the one with the least."""
    return [
        _contrast(row, *(row["completions"][row["rewards"].index(end(row["rewards"]))] for end in (max, min)))
        for row in rows
    ]


def _contrast(row: Row, chosen: Any, rejected: Any) -> Row:
    shared = {**tools_of(row), "prompt": row["prompt"], "prompt_key": row["prompt_key"]}
    return {**shared, "chosen": chosen, "rejected": rejected}


def _match(both: Mapping[bool, Sequence[Row]]) -> Iterator[Row]:
    """Every answer of the longer list once."""
    good, bad = both[True], both[False]
    for number in range(max(len(good), len(bad))):
        better, worse = good[number % len(good)], bad[number % len(bad)]
        contrast = _contrast(better, better["completion"], worse["completion"])
        yield contrast if worse["prompt"] == better["prompt"] else {**contrast, "rejected_prompt": worse["prompt"]}
