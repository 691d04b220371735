"""The held-out rows that a version is measured on: of which training set, and without those that it has learned from."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from django.db.models import Q

from rl.base.errors import NotEnoughData, UsageError
from rl.base.leaves import leaf_name
from rl.base.messages import tools_of
from rl.config import find_method, find_rows
from rl.config.methods import METHODS, all_rows
from rl.data_formatter import read_training_rows
from rl.data_formatter.opinions import stable_hash
from rl.dataset_builder import Split
from rl.dataset_builder.accepted_answers import folds_of
from rl.dataset_builder.frozen.files import HELD_OUT, TRAIN
from rl.evaluation.gate import FEWEST_PROMPTS
from rl.judge.labels import sample_rows
from rl.models import Agent, ModelVersion, TrainingSet

TRIED = ("reward", "success")
"""Measures by what a model does with the rows: answers are generated, episodes played."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Contrasts that none of the versions compared has learned from."""

    rows: Sequence[Mapping[str, Any]]
    share: float
    """Which share of the prompts is held out, 0 to 1."""
    learned: int
    """Rows of the set that were left out."""


def never_learned(training_set: TrainingSet, *compared: ModelVersion | None) -> HeldOut:
    """A version that was trained with a smaller held-out share has learned from some prompts that the set holds out. The
    split is nested, so what the smallest share holds out none of them has seen. Tasks are split by whoever wrote them: those
    that a version learned from are left out."""
    others = TrainingSet.objects.filter(runs__version__in=[version.trained for version in compared if version])
    kind = find_rows(training_set.method)
    rows = list(read_training_rows(training_set.directory / HELD_OUT, kind.name))
    if kind.of_tasks:
        learned = keys_learned(others.filter(method=kind.name))
        unseen = [row for row in rows if row["split_key"] not in learned]
        return HeldOut(unseen, training_set.val_split, len(rows) - len(unseen))
    of_tasks = [name for name, rows_of in all_rows().items() if rows_of.of_tasks]
    folded = [other for other in others.exclude(pk=training_set.pk) if folds_of(other)]
    split = others.exclude(method__in=of_tasks).exclude(pk__in=[other.pk for other in folded])
    share = min([training_set.val_split, *split.values_list("val_split", flat=True)])
    learned = keys_learned(folded)
    unseen = [row for row in rows if row["split_key"] not in learned] if learned else rows
    if share < training_set.val_split:
        smaller = Split(training_set.agent, share)
        unseen = [row for row in unseen if smaller.is_held_out(row["split_key"])]
    return HeldOut(contrasts(kind.name, unseen), share, len(rows) - len(unseen))


@dataclass(frozen=True, slots=True)
class Labels:
    """What a judge of answers learns from."""

    method: str
    """Kind of the rows."""
    rows: Sequence[Mapping[str, Any]]


def labels_of(training_set: TrainingSet) -> Labels:
    """A sample of its rows, those held out too."""
    method = find_rows(training_set.method).name
    files = (training_set.directory / name for name in (TRAIN, HELD_OUT))
    return Labels(method, sample_rows(row for file in files for row in read_training_rows(file, method)))


def keys_learned(sets: Iterable[TrainingSet]) -> set[str]:
    """Their split keys."""
    files = [(training_set.directory / TRAIN, training_set.method) for training_set in sets]
    return {row["split_key"] for file, method in files for row in read_training_rows(file, method)}


def _measured_by(*measures: str) -> list[str]:
    return [name for name, kind in all_rows().items() if kind.measure in measures]


def latest_training_set(agent: Agent, version: ModelVersion | None = None, *, scores: bool = False) -> TrainingSet:
    """Its held-out prompts are those of all earlier sets and newer ones. Sets whose rows are tried come last, but for a
    version that learned from such a set those of its kind come first. Sets of reward models, which compare answers to
    different prompts, measure these alone. A cross-fitted version has its own set, of which it alone has answers. Raises
    NotEnoughData when there is none.

    ``scores``: for a folder with a reward model, which is not a version."""
    tested = Q(heldout_rows__gt=0) | Q(stats__folds__gt=0)
    sets = agent.training_sets.filter(tested, method__in=_measured_by("preference", *TRIED))
    learned_from = TrainingSet.objects.filter(runs__version=version).first() if version else None
    if version and version.is_reward_model:
        sets = sets.filter(method=find_method(version.trained.run.method).rows.name)
    elif not scores:
        sets = sets.exclude(method__in=[method.rows.name for method in METHODS.values() if method.scores])
    if learned_from and folds_of(learned_from):
        return learned_from
    ranked = [sets.filter(method__in=_measured_by(measure)) for measure in ("preference", *TRIED)]
    if learned_from and learned_from.method in _measured_by(*TRIED):
        ranked.insert(0, sets.filter(method=learned_from.method))
    for candidates in ranked:
        if training_set := candidates.first():
            return training_set
    raise NotEnoughData(_why_none(agent))


def _why_none(agent: Agent) -> str:
    """The agent has no held-out rows."""
    newest = agent.training_sets.filter(train_rows__gt=0, method__in=_measured_by("preference")).first()
    if newest is None:
        return f"{agent.name} has no held-out rows yet: they are made by the first training run"
    prompts = newest.stats.get("prompts", 0)
    made = f"the newest training set of {agent.name} has {newest.train_rows:,} rows, of {prompts:,} prompt"
    made += f"{'' if prompts == 1 else 's'}, and all are trained on"
    own = "or give pairs of other prompts with --test-data FILE"
    if not newest.val_split:
        return f"{made}, as its held-out share is 0: train with a larger --val-split, {own}"
    wanted = ceil(FEWEST_PROMPTS / newest.val_split)
    return (
        f"{made}: a prompt is either learned from or tested on, never both. rate answers to other prompts: with a held-out "
        f"share of {newest.val_split:.0%} about {wanted:,} prompts give the {FEWEST_PROMPTS} that are needed, {own}"
    )


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
