"""From people's opinions, the newest labels and preferences, to a measured model.

An answer's label is good where the mean of its ratings lies above the middle, and bad below it. A preference is a
side-by-side pick of two answers to one prompt, or an edited answer, which is better than what it was made from."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Avg, Count, F, Max, Q, QuerySet
from django.utils import timezone

from rl.auto_labels.predicting import HEAD, RATERS, load_reader, newest
from rl.base.errors import BadFile, NotEnoughData
from rl.base.leaves import leaf
from rl.base.records import Report, Vote, silent
from rl.dataset_builder import Split
from rl.judge.labels import MOST_ROWS, Answers, Opinion
from rl.models import Agent, Feedback, LabelModel, Trace, prompt_key
from rl.models.traces import may_be_used

MOST_WEIGHT = 3
"""What a label weighs at most: so many raters more on its side than on the other. More of them say no more about others."""
FEWEST_OF_A_KIND = 10
"""Good labels, and bad ones, to learn from."""
FEWEST_HELD_OUT = 10
HELD_OUT = 0.2
"""Share of the prompts; the same ones that every training set holds out at this share."""


def read_opinions(agent: Agent, answers: Answers) -> list[Opinion]:
    """MOST_ROWS at most, half of them preferences where both are many; their answers are added. Each opinion's prompt is
    the hash of its words."""
    ratings, events = list(find_labels(agent)[:MOST_ROWS]), list(_find_preferences(agent)[:MOST_ROWS])
    events = events[: max(MOST_ROWS // 2, MOST_ROWS - len(ratings))]
    labels = read_labels(
        ratings[: MOST_ROWS - len(events)],
        lambda trace: (answers.add(trace.prompt, trace.response), prompt_key(trace.prompt)),
    )
    return [*labels, *_read_preferences(events, answers)]


def find_labels(agent: Agent) -> QuerySet[Any, Any]:
    """One row for each trace, the newest first; without those whose mean is the middle."""
    ratings = Feedback.objects.filter(
        may_be_used("trace__"), agent=agent, kind=Feedback.Kind.RATING, is_current=True
    ).order_by()
    above, below = (Count("pk", filter=half) for half in (Q(value__gt=0.5), Q(value__lt=0.5)))
    means = ratings.values("trace").annotate(mean=Avg("value"), above=above, below=below, newest=Max("pk"))
    return means.exclude(mean=0.5).order_by("-newest")


def read_labels(ratings: Iterable[Mapping[str, Any]], row_of: Callable[[Trace], tuple[int, str]]) -> Iterator[Opinion]:
    """``row_of``: the number of an answer's features, and the key of what is held out together."""
    by_trace = {row["trace"]: row for row in ratings}
    votes = _votes(by_trace)
    for trace in Trace.objects.filter(pk__in=by_trace).only("prompt", "response").order_by("pk"):
        row = by_trace[trace.pk]
        weight = min(max(abs(row["above"] - row["below"]), 1), MOST_WEIGHT)
        number, key = row_of(trace)
        good = row["mean"] > 0.5
        own = tuple(Vote(vote.rater, vote.agrees == good) for vote in votes[trace.pk])
        yield Opinion(number, None, float(good), weight, key, own)


def _votes(traces: Iterable[Any]) -> Mapping[Any, list[Vote]]:
    """For and against the answer, by trace."""
    votes: defaultdict[Any, list[Vote]] = defaultdict(list)
    ratings = Feedback.objects.filter(trace__in=traces, kind=Feedback.Kind.RATING, is_current=True).exclude(value=0.5)
    for trace, rater, value in ratings.order_by("pk").values_list("trace", "rater", "value"):
        votes[trace] += [] if value is None else [Vote(rater, value > 0.5)]
    return votes


def _find_preferences(agent: Agent) -> QuerySet[Feedback]:
    """The newest first."""
    picks = Q(kind=Feedback.Kind.COMPARISON, choice__in=(Feedback.Choice.LEFT, Feedback.Choice.RIGHT))
    picks &= Q(other_trace__prompt_key=F("trace__prompt_key"))
    events = Feedback.objects.filter(picks | Q(kind=Feedback.Kind.CORRECTION), agent=agent, is_current=True)
    events = events.filter(may_be_used("trace__"), Q(other_trace=None) | may_be_used("other_trace__"))
    texts = ("trace__prompt", "trace__response", "other_trace__response")
    return events.order_by("-pk").select_related("trace", "other_trace").only("kind", "choice", "text", "rater", *texts)


def _read_preferences(events: Iterable[Feedback], answers: Answers) -> Iterator[Opinion]:
    for event in events:
        prompt, (better, worse) = event.trace.prompt, _sides(event)
        if better.strip() and better != worse:
            numbers = answers.add(prompt, better), answers.add(prompt, worse)
            yield Opinion(*numbers, prompt=prompt_key(prompt), votes=(Vote(event.rater, True),))


def _sides(event: Feedback) -> tuple[str, str]:
    """The better text and the worse one."""
    left = event.trace.response
    if event.kind == Feedback.Kind.CORRECTION:
        return event.text, left
    right = event.other_trace.response if event.other_trace else ""
    return (left, right) if event.choice == Feedback.Choice.LEFT else (right, left)


@dataclass(frozen=True, slots=True)
class Preferences:
    learned: int
    held_out: int
    right: int
    """So many of those held out the judge ranks as people do."""

    def as_dict(self) -> dict[str, Any]:
        accuracy = self.right / self.held_out if self.held_out else None
        return {"learned": self.learned, "held_out": self.held_out, "accuracy": accuracy}


@dataclass(frozen=True, slots=True)
class Learned:
    model: LabelModel
    """Not saved after a dry run."""
    preferences: Preferences | None
    """None of a model that was learned before."""
    head: Any
    """``rl.judge.head.Head``."""
    reader: Any
    """The base model in memory."""


def go_on(agent: Agent, report: Report = silent, reads: LabelModel.Reads = LabelModel.Reads.ANSWER) -> Learned | None:
    """The newest model, where nobody said anything since and the base model is the same: it can judge what is left. Raises
    UsageError as ``learn``."""
    model = newest(agent, reads)
    if model is None or agent.feedback.filter(created_at__gte=model.created_at).exists():
        return None
    try:
        head = leaf(HEAD).load(model.path)
    except BadFile:
        return None
    if head.base_model != agent.base_model:
        return None
    reader = load_reader(agent, report)
    return Learned(model, None, head, reader) if reader.width == len(head.mean) else None


def learn(agent: Agent, *, dry_run: bool = False, report: Report = silent) -> Learned:
    """Raises NotEnoughData, and UsageError where torch is not installed or the base model cannot be loaded."""
    heads, raters, began = leaf(HEAD), leaf(RATERS), timezone.now()
    answers = Answers()
    opinions = read_opinions(agent, answers)
    _split(agent, opinions)  # before the base model is loaded
    reader = load_reader(agent, report)
    features = reader.features(answers.conversations, report)
    learned, held_out = _split(agent, opinions)
    report("stage", {"name": f"learning from {len(learned):,} labels and preferences"})
    weighed = raters.weigh_opinions(learned, raters.trust_raters(features, learned))
    head = replace(heads.fit(features, weighed), base_model=agent.base_model)
    # for each label the probability of good, and whether it is
    labels = _labels(held_out)
    goodness = head.goodness(features[[label.answer for label in labels]]).tolist()
    measured = [(p, label.value > 0.5) for p, label in zip(goodness, labels, strict=True)]
    model = LabelModel(agent=agent, labels=len(_labels(learned)), **figures_of(measured))
    if not dry_run:
        keep(model, head, began)
    numbers = head.ratings(features)
    pairs = [(opinion.answer, opinion.other) for opinion in held_out if opinion.other is not None]
    right = sum(bool(numbers[better] > numbers[worse]) for better, worse in pairs)
    return Learned(model, Preferences(len(learned) - len(_labels(learned)), len(pairs), right), head, reader)


def keep(model: LabelModel, head: Any, began: datetime) -> None:
    with transaction.atomic():
        model.save()
        # what was said since is for the next one
        LabelModel.objects.filter(pk=model.pk).update(created_at=began)
        leaf(HEAD).save(head, model.path)


def _split(agent: Agent, opinions: Sequence[Opinion]) -> tuple[list[Opinion], list[Opinion]]:
    """To learn from, and held out. Raises NotEnoughData."""
    prompts = {opinion.prompt for opinion in opinions}
    split = Split(agent, HELD_OUT)
    aside = {prompt for prompt in prompts if split.is_held_out(prompt)}
    held_out = [opinion for opinion in opinions if opinion.prompt in aside]
    check_variety(_labels(opinions))
    if len(kept := _labels(held_out)) < FEWEST_HELD_OUT:
        raise NotEnoughData(
            f"only {len(kept)} labelled answers of {agent} belong to held-out prompts, and {FEWEST_HELD_OUT} are "
            "needed to know how good the model is: label answers to more questions"
        )
    return [opinion for opinion in opinions if opinion.prompt not in aside], held_out


def _labels(opinions: Sequence[Opinion]) -> list[Opinion]:
    return [opinion for opinion in opinions if opinion.other is None]


def check_variety(labels: Sequence[Opinion], what: str = "answers") -> None:
    """Raises NotEnoughData."""
    counts = Counter(label.value > 0.5 for label in labels)
    if missing := [name for good, name in ((True, "good"), (False, "bad")) if counts[good] < FEWEST_OF_A_KIND]:
        raise NotEnoughData(
            f"{counts[True]} {what} are labelled good and {counts[False]} bad; a model needs {FEWEST_OF_A_KIND} of each: "
            f"label more {' and '.join(missing)} ones"
        )


def figures_of(measured: list[tuple[float, bool]]) -> dict[str, Any]:
    """``measured``: for each held-out label the probability of good, and whether it is."""
    right = [(max(p, 1 - p), (p > 0.5) == good) for p, good in measured]
    goods = sum(good for _, good in measured)
    return {
        "heldout_labels": len(measured),
        "heldout_accuracy": sum(correct for _, correct in right) / len(right),
        "majority_share": max(goods, len(measured) - goods) / len(measured),
        "calibration": _calibration(right),
    }


def _calibration(right: list[tuple[float, bool]]) -> list[dict[str, float]]:
    bins = []
    for low in (0.5, 0.6, 0.7, 0.8, 0.9):
        high = round(low + 0.1, 1)
        inside = [(sure, correct) for sure, correct in right if low <= sure < high or sure == high == 1.0]
        if inside:
            confidence = sum(sure for sure, _ in inside) / len(inside)
            accuracy = sum(correct for _, correct in inside) / len(inside)
            bins.append({"from": low, "to": high, "count": len(inside), "confidence": confidence, "accuracy": accuracy})
    return bins
