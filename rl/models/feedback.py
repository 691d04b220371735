"""Feedback, Quarantine; WaitingRating, PendingSpan: what came before the answer that it belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from rl.models.access import ApiKey
from rl.models.agents import Agent
from rl.models.traces import Trace
from rl.models.training import TrainingSet

_AT_ONCE = 500


class Quarantine(models.Model):
    """Feedback of one rater that teaches nothing until a person has released it: it is kept, and is not current."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="quarantines")
    rater = models.CharField(max_length=200)
    reason = models.CharField(max_length=300, help_text="For people's eyes.")
    created_at = models.DateTimeField(auto_now_add=True)
    released_at = models.DateTimeField(null=True, blank=True)
    released_by = models.CharField(max_length=200, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "rater"], condition=Q(released_at__isnull=True), name="quarantine_one_open"
            )
        ]
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.rater}: {self.reason}"


def _index_seldom(*names: str) -> Iterator[models.Index]:
    """Yields an index for each foreign key that is mostly empty, of rows that have it. Where SQLite counts the empty ones
    too, it takes the key for a bad way in, and reads the table; and each rating would be put into every one of them."""
    for name in names:
        yield models.Index(fields=[name], condition=Q(**{f"{name}__isnull": False}), name=f"feedback_{name}")


class Feedback(models.Model):
    """An append-only event on a trace. Nothing is deleted: a newer rating supersedes, a retraction withdraws.

    Of the ratings of one rater on one trace at most one is current; comparisons, corrections and outcomes stay current
    until they are retracted. Training reads current events only."""

    class Kind(models.TextChoices):
        RATING = "rating", _("rating")  # thumb, stars or score of one answer
        COMPARISON = "comparison", _("side-by-side pick")  # this trace (left) against other_trace (right)
        CORRECTION = "correction", _("edited answer")  # text: what the answer should have been
        OUTCOME = "outcome", _("delayed outcome")  # metric and value, observed later
        RETRACTION = "retraction", _("retraction")  # withdraws the event it points at

    class Scale(models.TextChoices):
        THUMB = "thumb", _("thumb (0 or 1)")
        STARS = "stars", _("stars (1 to 5)")
        SCORE = "score", _("score (0 to 1)")

    class Choice(models.TextChoices):
        LEFT = "left", _("left is better")
        RIGHT = "right", _("right is better")
        TIE = "tie", _("equally good")
        BOTH_BAD = "both_bad", _("both bad")

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="feedback")
    trace = models.ForeignKey(Trace, on_delete=models.CASCADE, related_name="feedback")
    kind = models.CharField(max_length=16, choices=Kind)
    rater = models.CharField(
        max_length=200, help_text="user:… signed in, device:… a browser, else as a server named it."
    )
    address = models.CharField(
        max_length=16, blank=True, editable=False, help_text="Of a browser: a keyed hash of its address and the day."
    )
    source = models.CharField(max_length=32, default="api")
    api_key = models.ForeignKey(
        ApiKey, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )

    # rating
    scale = models.CharField(max_length=16, choices=Scale, blank=True)
    raw_value = models.FloatField(null=True, blank=True, help_text="As given, on its scale; the number of an outcome.")
    value = models.FloatField(null=True, blank=True, help_text="Normalised to 0 … 1.")
    # comparison
    other_trace = models.ForeignKey(
        Trace, null=True, blank=True, on_delete=models.CASCADE, related_name="compared", db_index=False
    )
    choice = models.CharField(max_length=16, choices=Choice, blank=True)
    # correction
    text = models.TextField(blank=True)
    # outcome
    metric = models.CharField(max_length=100, blank=True)

    tags = models.JSONField(default=list, blank=True)
    notes = models.TextField(blank=True)
    rated_at = models.DateTimeField(default=timezone.now, help_text="When the rater decided.")
    created_at = models.DateTimeField(auto_now_add=True)

    is_current = models.BooleanField(default=True)
    quarantine = models.ForeignKey(
        Quarantine,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="feedback",
        help_text="Holds it back; empty: nothing does.",
        db_index=False,
    )
    retracts = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.CASCADE, related_name="retractions", db_index=False
    )
    training_set = models.ForeignKey(
        TrainingSet,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="first_learned",
        help_text="The first training set that saw it; empty: it waits for the next run.",
    )

    token_raters: tuple[int, ...] = ()
    """Not stored. How many may judge its trace, and its other trace, by the tokens that came with it; empty: any number."""

    class Meta:
        verbose_name_plural = "feedback"
        constraints = [
            models.UniqueConstraint(
                fields=["trace", "rater"],
                condition=Q(kind="rating", is_current=True),
                name="feedback_one_current_rating",
            ),
            models.CheckConstraint(
                condition=Q(value__isnull=True) | Q(value__gte=0, value__lte=1), name="feedback_value_normalised"
            ),
            models.CheckConstraint(
                condition=~Q(kind="rating") | Q(value__isnull=False), name="feedback_rating_has_value"
            ),
            models.CheckConstraint(
                condition=~Q(kind="comparison") | Q(other_trace__isnull=False) & ~Q(choice=""),
                name="feedback_comparison_has_two_sides",
            ),
        ]
        indexes = [
            # How much current feedback has an agent (the dashboard), and how much of it waits (the learner, every minute)?
            # SQLite counts in the index alone only if the condition's columns are in it.
            models.Index(
                fields=["agent", "training_set", "kind", "is_current"],
                condition=Q(is_current=True) & ~Q(kind="retraction"),
                name="feedback_current",
            ),
            # Picks and edited answers, which are few beside ratings: how many pairs has an agent without its ratings?
            models.Index(
                fields=["agent", "kind"],
                condition=Q(is_current=True) & (Q(kind="comparison") | Q(kind="correction")),  # SQLite sees no IN in it
                name="feedback_direct",
            ),
            # The dashboard's ratings per day; the API's cursor.
            models.Index(fields=["agent", "-created_at", "id", "retracts"], name="feedback_agent_newest"),
            models.Index(fields=["-created_at", "id", "retracts"], name="feedback_newest"),
            # What raters wrote of late.
            models.Index(
                fields=["agent", "-created_at"], condition=Q(is_current=True) & ~Q(notes=""), name="feedback_noted"
            ),
            *_index_seldom("api_key", "user", "other_trace", "quarantine", "retracts"),
            # Which traces has this rater done? Also: everything of one person, to be forgotten.
            models.Index(fields=["rater", "trace"], name="feedback_rater"),
        ]
        ordering = ["-created_at", "id"]

    def __str__(self) -> str:
        return f"{self.kind} {self.pk} by {self.rater}"

    @classmethod
    def by_ids(cls, ids: Iterable[int]) -> Iterator[models.QuerySet[Feedback]]:
        """In parts, well under the databases' limits of parameters in a statement; in order of their ids, and in none
        within a part."""
        left = iter(sorted(ids))
        while part := list(islice(left, _AT_ONCE)):
            yield cls.objects.filter(pk__in=part).order_by()


class WaitingRating(models.Model):
    """A rating of an answer that is not here yet; it counts from when the answer comes."""

    agent = models.ForeignKey(
        Agent,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="waiting_ratings",
        help_text="Whose answer it has to be; empty: anybody's.",
    )
    entry_id = models.CharField(max_length=200, help_text="The answer's external id, or the id that it will have here.")
    by_id = models.BooleanField(default=False, help_text="A token gave the id that the answer will have here.")
    rater = models.CharField(max_length=200)
    address = models.CharField(max_length=16, blank=True, editable=False, help_text="As of feedback.")
    api_key = models.ForeignKey(ApiKey, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    scale = models.CharField(max_length=8, choices=Feedback.Scale, default=Feedback.Scale.THUMB)
    value = models.FloatField(help_text="As it was given.")
    tags = models.JSONField(default=list)
    notes = models.TextField(blank=True)
    rated_at = models.DateTimeField()
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["agent", "entry_id", "rater", "by_id"], name="waiting_rating_of_agent"),
            models.UniqueConstraint(
                fields=["entry_id", "rater"], condition=Q(agent__isnull=True), name="waiting_rating_of_any_agent"
            ),
        ]
        ordering = ["-rated_at", "id"]

    def __str__(self) -> str:
        return f"{self.scale} {self.value:g} by {self.rater} for {self.entry_id}"


class PendingSpan(models.Model):
    """A tool call or an evaluation that OpenTelemetry delivered before the model call that it belongs to."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="pending_spans")
    otel_trace_id = models.CharField(max_length=32, help_text="Hexadecimal.")
    span_id = models.CharField(max_length=16, help_text="Hexadecimal.")
    payload = models.JSONField()
    received_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["agent", "otel_trace_id", "span_id"], name="pending_span_unique"),
        ]
        indexes = [models.Index(fields=["received_at"], name="pending_span_oldest")]

    def __str__(self) -> str:
        return f"{self.otel_trace_id}/{self.span_id}"
