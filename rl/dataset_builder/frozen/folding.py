"""Which prompts a run is tested on that learns from all of them, where the answers have right ones.

To hold out a fifth of 25 corrections would take from the little that there is to learn, and a verdict on five prompts
decides nothing. So all rows are trained on, and the run is cross-fitted: each tested prompt is answered by an adapter that
was trained in the same way and has not learned from it. What the version in use has learned from cannot test it, so every
correction is a test of the first version that comes after it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rl.data_formatter.answer_kinds import AnswerKind
from rl.data_formatter.opinions import stable_hash
from rl.dataset_builder.accepted_answers import accepted_text
from rl.dataset_builder.frozen.files import HELD_OUT, TRAIN
from rl.dataset_builder.frozen.splitting import Split
from rl.models import Agent, Deployment, ModelVersion, TrainingSet

USUAL_SHARE: Final = 0.2
LEAST_TESTED: Final = 48
MOST_TESTED: Final = 200
"""Prompts, where there are so many; between the two, as large a share as is held out elsewhere. A share below the usual one
asks for fewer than the least, in proportion."""
FOLDS: Final = 3
HALF_FROM: Final = 64
"""Prompts from which on at most half are tested of structured answers, so that one further training is enough: it is as
long as the run's own."""
ONE_FOLD: Final = 0.5
"""Share of the prompts up to which one adapter leaves out all tested ones."""


@dataclass(frozen=True, slots=True)
class Tested:
    keys: tuple[str, ...] = ()
    """Those of prompts."""
    folds: int = 0
    """Parts of them, each answered by an adapter that has learned all rows but these; 0: the run is not cross-fitted."""


def choose_tested(agent: Agent, kind: AnswerKind, share: float, folder: Path) -> Tested:
    """``share``: that is held out elsewhere; 0: nobody wants to measure. ``folder``: with the rows as they were split."""
    if not kind.has_right_answers or not share:
        return Tested()
    rows = (row for name in (TRAIN, HELD_OUT) for row in _lines(folder / name))
    prompts = {row["prompt_key"]: row["split_key"] for row in rows if accepted_text(row)}
    learned = learned_keys(Deployment.champion(agent), set(prompts.values()))
    new = sorted((key for key, split in prompts.items() if split not in learned), key=stable_hash)
    tested = new[: most_tested(len(prompts), share, kind.kind)]
    return Tested(tuple(tested), count_folds(len(prompts), len(tested)))


def most_tested(prompts: int, share: float, kind: str) -> int:
    least = round(LEAST_TESTED * min(1.0, share / USUAL_SHARE))
    most = min(prompts, MOST_TESTED, max(least, int(share * prompts)))
    return min(most, prompts // 2) if kind == "structured" and prompts >= HALF_FROM else most


def count_folds(prompts: int, tested: int) -> int:
    return 1 if tested <= ONE_FOLD * prompts else FOLDS


def move_to_train(agent: Agent, folder: Path) -> int:
    """What was held out by its hash is trained on; what was marked as held out stays so. Returns how many rows moved."""
    marked, stay, moved = Split(agent, 0.0), [], 0
    with (folder / TRAIN).open("ab") as train:
        for line in (folder / HELD_OUT).read_bytes().splitlines(keepends=True):
            if marked.is_held_out(json.loads(line)["split_key"]):
                stay.append(line)
            else:
                train.write(line)
                moved += 1
    (folder / HELD_OUT).write_bytes(b"".join(stay))
    return moved


def learned_keys(version: ModelVersion | None, among: set[str]) -> set[str]:
    """Split keys of these prompts that the version has learned from."""
    if version is None or not among:
        return set()
    sets = TrainingSet.objects.filter(runs__version=version.trained)
    files = (training_set.directory / TRAIN for training_set in sets)
    return {row["split_key"] for file in files for row in _lines(file) if row.get("split_key") in among}


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    if file.is_file():  # else somebody tidied up
        with file.open("rb") as lines:
            yield from map(json.loads, lines)
