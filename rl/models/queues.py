"""AnswerPair, RatingQueue, GoldItem, Invite, Claim: who is asked what, and by whom it is being answered."""

from __future__ import annotations

import uuid

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Lower
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from rl.base.errors import UsageError
from rl.base.slugs import check_slug
from rl.models.agents import Agent
from rl.models.feedback import Feedback
from rl.models.traces import Trace
from rl.models.versions import ModelVersion

NOT_BLIND = "not blind"
"""The tag of a comparison by somebody who had been shown the names of the versions."""
_SHARE = [MinValueValidator(0), MaxValueValidator(0.5)]


def validate_queue_name(value: str) -> None:
    try:
        check_slug(value, "queue name")
    except UsageError as error:
        raise ValidationError(str(error)) from error


class AnswerPair(models.Model):
    """Two answers to one prompt, drawn to be compared. Feedback of kind comparison says who preferred which.

    The row is written before the answers are, so nothing in the database makes sure that they exist."""

    class Origin(models.TextChoices):
        TALK = "talk", "a person's own question"
        SECOND = "second", "a second answer, made in idle time"
        DUEL = "duel", "answers of a new version and of the one in use"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="answer_pairs")
    left = models.ForeignKey(Trace, on_delete=models.CASCADE, related_name="+", db_constraint=False)
    right = models.ForeignKey(Trace, on_delete=models.CASCADE, related_name="+", db_constraint=False)
    origin = models.CharField(max_length=16, choices=Origin)
    drawn_for = models.CharField(max_length=200, blank=True, help_text="The rater who asked; empty: for anybody.")
    version = models.ForeignKey(
        ModelVersion,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="duels",
        help_text="The new version that picks decide about; empty: no duel.",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["left", "right"], name="answer_pair_unique")]
        indexes = [models.Index(fields=["agent", "origin", "-created_at"], name="answer_pair_agent")]
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.left_id} and {self.right_id}"

    @classmethod
    def find_open(cls, origin: Origin, **whose: models.Model) -> models.QuerySet[AnswerPair]:
        """Those that nobody has compared, whichever side he saw first. ``whose``: an ``agent`` or a ``version``."""
        compared = Feedback.objects.filter(kind=Feedback.Kind.COMPARISON, is_current=True)
        one_way = compared.filter(trace=OuterRef("left"), other_trace=OuterRef("right"))
        other_way = compared.filter(trace=OuterRef("right"), other_trace=OuterRef("left"))
        return cls.objects.filter(~Exists(one_way), ~Exists(other_way), origin=origin, **whose).order_by()


class RatingQueue(models.Model):
    """A filter on an agent's answers, what is asked about them, and of how many people."""

    class Rubric(models.TextChoices):
        THUMBS = "thumbs", _("good or bad")
        STARS = "stars", _("1 to 5")
        SCORE = "score", _("0 to 1")
        PAIR = "pair", _("which of two is better")
        EDIT = "edit", _("what it should have been")

    class Order(models.TextChoices):
        NEWEST = "newest", _("newest first")
        OLDEST = "oldest", _("oldest first")
        RANDOM = "random", _("random")
        UNCERTAIN = "uncertain", _("where the judge is least sure first")
        DISPUTED = "disputed", _("where raters disagree first")
        UNSURE = "unsure", _("where the model chose with the least certainty first")

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="queues")
    name = models.CharField(max_length=64, validators=[validate_queue_name])
    instructions = models.TextField(blank=True, help_text="Stand beside each item.")
    rubric = models.CharField(max_length=16, choices=Rubric, default=Rubric.THUMBS)
    tags = models.JSONField(default=list, blank=True, help_text="Offered beside those of the answer's source.")
    filters = models.JSONField(default=dict, blank=True, help_text="Which answers; empty: all.")
    raters_per_item = models.PositiveSmallIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1)], help_text="Empty: everybody rates every item."
    )
    order = models.CharField(max_length=16, choices=Order, default=Order.NEWEST)
    lock_seconds = models.PositiveIntegerField(
        default=300,
        validators=[MinValueValidator(10)],
        help_text="How long an item is somebody's own; activity renews it.",
    )
    gold_share = models.FloatField(
        default=0.05, validators=_SHARE, help_text="Of the items shown, those whose right answer is known."
    )
    repeat_share = models.FloatField(
        default=0.05, validators=_SHARE, help_text="Of the items shown, those that the rater has decided before."
    )
    created_by = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint("agent", Lower("name"), name="rating_queue_name_unique")]
        ordering = ["agent__name", "name"]

    def __str__(self) -> str:
        return f"{self.agent_id}/{self.name}"


class GoldItem(models.Model):
    """An item of a queue whose right answer is known; it measures raters and teaches nothing."""

    queue = models.ForeignKey(RatingQueue, on_delete=models.CASCADE, related_name="gold")
    trace = models.ForeignKey(Trace, on_delete=models.CASCADE, related_name="+")
    other_trace = models.ForeignKey(Trace, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    value = models.FloatField(null=True, blank=True, help_text="Of an answer, 0 … 1.")
    choice = models.CharField(max_length=16, choices=Feedback.Choice, blank=True, help_text="Of a pair.")
    created_by = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["queue", "trace"], condition=Q(other_trace__isnull=True), name="gold_answer_unique"
            ),
            models.UniqueConstraint(fields=["queue", "trace", "other_trace"], name="gold_pair_unique"),
            models.CheckConstraint(
                condition=Q(other_trace__isnull=True, value__isnull=False, choice="")
                | (Q(other_trace__isnull=False, value__isnull=True) & ~Q(choice="")),
                name="gold_has_one_answer",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.trace_id} in {self.queue_id}"


class Invite(models.Model):
    """Lets somebody without an account rate one queue, by a signed link that names this row."""

    queue = models.ForeignKey(RatingQueue, on_delete=models.CASCADE, related_name="invites")
    name = models.CharField(max_length=100, help_text="Whom it is for.")
    created_by = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    device = models.CharField(max_length=64, blank=True, editable=False, help_text="The browser that uses it now.")
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.name} for {self.queue_id}"

    @property
    def rater(self) -> str:
        return f"invite:{self.pk}"

    def revoke(self) -> None:
        type(self).objects.filter(pk=self.pk, revoked_at__isnull=True).update(revoked_at=timezone.now())


class Claim(models.Model):
    """One rater and one item of a queue: his alone until the lock ends, then decided or skipped.

    CLAIMED ──► DECIDED ──► CLAIMED again, by undo
            └─► SKIPPED ──► CLAIMED again, by undo or at the end of his queue"""

    class Purpose(models.TextChoices):
        ITEM = "item", "item"
        GOLD = "gold", "gold item"
        REPEAT = "repeat", "repeat"

    class State(models.TextChoices):
        CLAIMED = "claimed", "claimed"
        DECIDED = "decided", "decided"
        SKIPPED = "skipped", "skipped"

    queue = models.ForeignKey(RatingQueue, on_delete=models.CASCADE, related_name="claims")
    trace = models.ForeignKey(Trace, on_delete=models.CASCADE, related_name="claims")
    other_trace = models.ForeignKey(Trace, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    pair = models.ForeignKey(AnswerPair, null=True, blank=True, on_delete=models.CASCADE, related_name="claims")
    rater = models.CharField(max_length=200)
    purpose = models.CharField(max_length=16, choices=Purpose, default=Purpose.ITEM)
    swapped = models.BooleanField(default=False, help_text="The other trace was shown on the left.")
    state = models.CharField(max_length=16, choices=State, default=State.CLAIMED)
    expires_at = models.DateTimeField(help_text="From then on another may have the item.")
    decided_at = models.DateTimeField(null=True, blank=True, help_text="Also of a skip.")
    decision = models.JSONField(default=dict, blank=True, help_text="value or choice, as if nothing had been swapped.")
    decision_id = models.UUIDField(null=True, blank=True, help_text="The browser's own, so that none is stored twice.")
    feedback = models.ForeignKey(Feedback, null=True, blank=True, on_delete=models.SET_NULL, related_name="claims")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["queue", "rater", "trace", "purpose"],
                condition=Q(other_trace__isnull=True),
                name="claim_answer_unique",
            ),
            models.UniqueConstraint(
                fields=["queue", "rater", "trace", "other_trace", "purpose"], name="claim_pair_unique"
            ),
            models.UniqueConstraint(fields=["rater", "decision_id"], name="claim_decision_unique"),
        ]
        indexes = [
            # How many raters have this item, or had it?
            models.Index(fields=["queue", "trace", "state"], name="claim_item"),
            # What did he decide last?
            models.Index(fields=["queue", "rater", "-decided_at"], name="claim_rater"),
        ]

    def __str__(self) -> str:
        return f"{self.trace_id} by {self.rater}: {self.state}"
