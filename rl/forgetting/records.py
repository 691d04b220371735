"""The rows that are a person's own."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.utils.crypto import salted_hmac

from rl.base.errors import UsageError
from rl.collect.feedback.rating_rows import await_reward
from rl.collect.traces.rows import chunks
from rl.dataset_builder.frozen.files import FEEDBACK, read_feedback_ids
from rl.models import (
    Agent,
    AnswerPair,
    Arm,
    Assignment,
    Claim,
    Deployment,
    Experiment,
    Feedback,
    Invite,
    LabelModel,
    ModelVersion,
    PendingSpan,
    Quarantine,
    Trace,
    TrainingRun,
    TrainingSet,
    TrainingSetTrace,
    WaitingRating,
)
from rl.models.traces import DUEL

_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Person:
    names: tuple[str, ...]
    """As raters and as users of the gateway: user:alice, device:…, invite:12, or as an application named them."""
    user_ids: tuple[int, ...]
    """Accounts of this site."""
    agent: Agent | None = None
    """The only agent whose records are theirs to be deleted; None: all."""

    @property
    def marks(self) -> list[str]:
        """A keyed hash of each name: the same in all receipts of one installation, and without its key nobody's."""
        return sorted(
            salted_hmac("rl.forgetting", name, algorithm="sha256").hexdigest()[:_DIGITS] for name in self.names
        )

    @property
    def invites(self) -> list[int]:
        numbers = (name.removeprefix("invite:") for name in self.names if name.startswith("invite:"))
        return [int(number) for number in numbers if number.isdecimal()]

    def of_agent(self, column: str = "agent") -> Q:
        return Q() if self.agent is None else Q(**{column: self.agent})


def find_person(rater: str, also: Sequence[str] = (), agent: Agent | None = None) -> Person:
    """Raises UsageError for an empty name. That nobody has said anything under a name is not an error: it may be gone."""
    names = tuple(dict.fromkeys(name.strip() for name in (rater, *also)))
    if not all(names):
        raise UsageError(
            "the name of a rater must not be empty: write it as the feedback list does, such as user:alice"
        )
    usernames = [name.removeprefix("user:") for name in names if name.startswith("user:")]
    accounts = User.objects.filter(username__in=usernames).order_by("pk").values_list("pk", flat=True)
    return Person(names, tuple(accounts), agent)


AT_ONCE = 400
"""Ids in a statement: well under the databases' limits of parameters."""


@dataclass(frozen=True, slots=True)
class Left:
    """What they left, as it was read in one transaction."""

    feedback: frozenset[int]
    traces: frozenset[UUID]
    rated: frozenset[UUID]
    """Answers to others that they rated: these stay, and their reward is computed anew."""

    def agent_ids(self) -> set[int]:
        events = [Feedback.objects.filter(pk__in=part) for part in chunks(self.feedback, AT_ONCE)]
        answers = [Trace.objects.filter(pk__in=part) for part in chunks(self.traces, AT_ONCE)]
        return {pk for rows in (*events, *answers) for pk in rows.order_by().values_list("agent", flat=True)}


def find_left(person: Person) -> Left:
    theirs = Q(rater__in=person.names) | Q(user__in=person.user_ids)
    rows = Feedback.objects.filter(theirs, person.of_agent()).order_by()
    feedback = list(rows.values_list("pk", "trace_id"))
    traces = frozenset(_traces_of(person))
    rated = frozenset(trace_id for _, trace_id in feedback) - traces
    return Left(frozenset(pk for pk, _ in feedback), traces, rated)


def _traces_of(person: Person) -> Iterator[UUID]:
    """Answers to their questions, and second answers to the same questions, and those of duels."""
    by_name = Q(unit__in=person.names) | Q(session_id__in=person.names)
    for user_id in person.user_ids:
        by_name |= Q(session_id__startswith=f"try-{user_id}-")
    asked = Trace.objects.filter(by_name, person.of_agent()).order_by()
    yield from asked.values_list("pk", flat=True)
    duels = Trace.objects.filter(person.of_agent(), source=DUEL, prompt_key__in=asked.values("prompt_key")).order_by()
    yield from duels.values_list("pk", flat=True)
    of_theirs = Q(drawn_for__in=person.names) | Q(left__in=asked.values("pk")) | Q(right__in=asked.values("pk"))
    for pair in AnswerPair.objects.filter(of_theirs, person.of_agent()).order_by().values_list("left", "right"):
        yield from pair


def delete_rows(person: Person, left: Left) -> dict[str, int]:
    """In the caller's transaction. How many of which kind are gone, with what hung on them: ratings that others gave to
    their answers among it."""
    gone: Counter[str] = Counter()
    for rows in _rows_of(person):
        gone.update(rows.delete()[1])
    for part in chunks(left.feedback, AT_ONCE):
        gone.update(Feedback.objects.filter(pk__in=part).delete()[1])
    for answers in chunks(left.traces, AT_ONCE):
        theirs = Trace.objects.filter(pk__in=answers)
        spans = theirs.filter(otel_trace_id__isnull=False).values("otel_trace_id")
        gone.update(PendingSpan.objects.filter(person.of_agent(), otel_trace_id__in=spans).delete()[1])
        gone.update(theirs.delete()[1])
    for answers in chunks(left.rated, AT_ONCE):
        await_reward(answers)
    return {name.removeprefix("rl."): count for name, count in sorted(gone.items()) if count}


def has_rows(person: Person) -> bool:
    return any(rows.exists() for rows in _rows_of(person))


def _rows_of(person: Person) -> Iterator[QuerySet]:
    yield Claim.objects.filter(person.of_agent("queue__agent"), rater__in=person.names)
    yield Quarantine.objects.filter(person.of_agent(), rater__in=person.names)
    yield WaitingRating.objects.filter(person.of_agent(), rater__in=person.names)
    yield AnswerPair.objects.filter(person.of_agent(), drawn_for__in=person.names)
    yield Assignment.objects.filter(person.of_agent("experiment__agent"), unit__in=person.names)
    yield Invite.objects.filter(person.of_agent("queue__agent"), pk__in=person.invites)


@dataclass(frozen=True, slots=True)
class Uses:
    training_sets: list[TrainingSet]
    runs: list[TrainingRun]
    versions: list[ModelVersion]
    label_models: list[int]

    def as_dict(self) -> dict[str, Any]:
        return {
            "training_sets": [
                {"id": str(row.pk), "agent": row.agent.name, "method": row.method} for row in self.training_sets
            ],
            "runs": [{"run": row.pk, "agent": row.agent.name, "state": row.state} for row in self.runs],
            "versions": [
                {
                    "version": row.name,
                    "agent": row.agent.name,
                    "in_use": is_in_use(row),
                    "artifacts": [artifact.path for artifact in row.artifacts.all()],
                    "deployments": [
                        f"{served.model_name or served.pk} on {served.target}"
                        for served in row.deployments.exclude(target=Deployment.Target.NONE)
                    ],
                }
                for row in self.versions
            ],
            "label_models": self.label_models,
        }


def find_uses(left: Left, known_sets: Collection[UUID] = ()) -> Uses:
    """``known_sets``: what an earlier receipt names, whose rows in the database are gone."""
    agents = left.agent_ids()
    ids = {*known_sets, *_sets_with_words(left), *_sets_that_read(agents, left.feedback)}
    sets = list(TrainingSet.objects.filter(pk__in=ids).select_related("agent").order_by("created_at"))
    runs = _runs_on(sets)
    trained = [run.version for run in runs if run.version is not None]
    others = ModelVersion.objects.filter(Q(weights__in=trained) | Q(weights__weights__in=trained))
    versions = [*trained, *others.select_related("agent")]
    return Uses(sets, runs, versions, _label_models(left))


def is_in_use(version: ModelVersion) -> bool:
    """It answers people, is what one step back leads to, or is in an experiment that is not over; or a version that has its
    weights is."""
    same = Q(pk=version.pk) | Q(weights=version) | Q(weights__weights=version)
    ids = ModelVersion.objects.filter(same).values_list("pk", flat=True)
    served = Deployment.objects.filter(version__in=ids).exclude(target=Deployment.Target.NONE, alias="")
    open_arms = Arm.objects.filter(version__in=ids).exclude(experiment__state=Experiment.State.STOPPED)
    return served.exists() or open_arms.exists()


def _sets_with_words(left: Left) -> Iterable[UUID]:
    for part in chunks(left.traces, AT_ONCE):
        yield from TrainingSetTrace.objects.filter(trace__in=part).values_list("training_set", flat=True).distinct()


def _sets_that_read(agents: Collection[int], feedback: frozenset[int]) -> Iterable[UUID]:
    """Each set has a list of all feedback that was read for it; where its files are gone, the first reader is known."""
    for row in TrainingSet.objects.filter(agent__in=agents):
        listing = row.directory / FEEDBACK
        if listing.exists() and not feedback.isdisjoint(read_feedback_ids(row.directory)):
            yield row.pk
    for part in chunks(feedback, AT_ONCE):
        first = Feedback.objects.filter(pk__in=part, training_set__isnull=False).order_by()
        yield from first.values_list("training_set", flat=True).distinct()


def _runs_on(sets: Iterable[TrainingSet]) -> list[TrainingRun]:
    """Also those that were rewarded by a reward model of such a run."""
    own = TrainingRun.objects.select_related("agent", "version__agent", "training_set").order_by("pk")
    runs = list(own.filter(training_set__in=list(sets)))
    rewarding = {(run.agent_id, run.version.name.lower()) for run in runs if run.version is not None}
    others = own.filter(agent__in={run.agent_id for run in runs}).exclude(pk__in=[run.pk for run in runs])
    return runs + [run for run in others if (run.agent_id, str(run.options.get("reward_model")).lower()) in rewarding]


def _label_models(left: Left) -> list[int]:
    """A judge learns from all ratings of its agent, and of what users wrote next: those that were made since this person's
    first rating or message."""
    models: set[int] = set()
    hearing = LabelModel.objects.filter(reads=LabelModel.Reads.FOLLOW_UP)
    sources: tuple[tuple[Any, ...], ...] = (
        (Feedback, left.feedback, LabelModel.objects.all()),
        (Trace, left.traces, hearing),
    )
    for table, keys, learned in sources:
        for part in chunks(keys, AT_ONCE):
            newest_first = table.objects.filter(pk__in=part).order_by("-created_at")
            for agent_id, at in dict(newest_first.values_list("agent", "created_at")).items():
                models.update(learned.filter(agent=agent_id, created_at__gte=at).values_list("pk", flat=True))
    return sorted(models)
