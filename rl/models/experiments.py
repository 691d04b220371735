"""Experiments, arms, assignments."""

import re

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q, Value
from django.db.models.functions import Coalesce
from django.utils.translation import gettext_lazy as _

from rl.base.names import unknown_name
from rl.models.agents import Agent
from rl.models.serving import BEST_OF_RANGE
from rl.models.versions import BASE, ModelVersion, version_name

METRICS = ("rating", "thumbs_up", "win_rate", "duel", "error_rate")
"""What an experiment can measure, beside ``outcome:NAME``."""
_OUTCOME = re.compile(r"outcome:\S.{0,98}")


def validate_metric(value: str) -> None:
    if value not in METRICS and not _OUTCOME.fullmatch(value):
        raise ValidationError(unknown_name("metric", value, METRICS, "outcome:NAME"))


def validate_ramp(value: object) -> None:
    """A list of ``{"hours": h, "share": s}``: hours rise from 0, shares (of all but the control) lie in (0, 1]."""
    if not isinstance(value, list):
        raise ValidationError('must be a JSON list such as [{"hours": 0, "share": 0.1}, {"hours": 24, "share": 0.5}]')
    before = -1.0
    for step in value:
        if not isinstance(step, dict) or set(step) != {"hours", "share"}:
            raise ValidationError("every step of a ramp has hours and share, and nothing else")
        hours, share = step["hours"], step["share"]
        if not all(isinstance(number, (int, float)) and not isinstance(number, bool) for number in (hours, share)):
            raise ValidationError("hours and share are numbers")
        if hours <= before or (before < 0 and hours != 0) or not 0 < share <= 1:
            raise ValidationError("hours start at 0 and rise; a share is above 0 and at most 1")
        before = hours


class Experiment(models.Model):
    """A sticky, weighted split of an agent's traffic between versions, and the question that it answers.

    DRAFT ──► RUNNING ──► STOPPED, with a verdict where there is one"""

    class State(models.TextChoices):
        DRAFT = "draft", _("draft")
        RUNNING = "running", _("running")
        STOPPED = "stopped", _("stopped")

    class Verdict(models.TextChoices):
        PROMOTE = "promote", "promote"  # a challenger is better than the control
        ROLL_BACK = "roll_back", "roll back"  # the challenger is worse
        NO_DIFFERENCE = "no_difference", "no difference"
        STOPPED = "stopped", "stopped by a person"

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="experiments")
    name = models.CharField(max_length=100)
    state = models.CharField(max_length=16, choices=State, default=State.DRAFT)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    stopped_at = models.DateTimeField(null=True, blank=True)

    # the question
    QUESTION = (
        *("metric", "minimum_effect", "confidence", "min_samples"),
        *("max_samples", "guard_metric", "guard_margin", "ramp"),
    )
    """Fields that stay as they are while the answers come in."""
    metric = models.CharField(
        max_length=110,
        default="rating",
        validators=[validate_metric],
        help_text="rating, thumbs_up, win_rate, duel, error_rate or outcome:NAME.",
    )
    minimum_effect = models.FloatField(
        default=0.1,
        validators=[MinValueValidator(1e-6)],
        help_text="The smallest difference that matters, in units of the metric (0.1: ten points).",
    )
    confidence = models.FloatField(default=0.95, validators=[MinValueValidator(0.5), MaxValueValidator(0.999)])
    min_samples = models.PositiveIntegerField(
        default=50, validators=[MinValueValidator(2)], help_text="Rated users an arm before anything is concluded."
    )
    max_samples = models.PositiveIntegerField(
        null=True, blank=True, help_text="Rated users an arm at which it ends without a difference; empty: predicted."
    )
    guard_metric = models.CharField(
        max_length=110,
        blank=True,
        validators=[validate_metric],
        help_text="An arm that is worse by this one is stopped at once, however few samples there are.",
    )
    guard_margin = models.FloatField(
        default=0.0, validators=[MinValueValidator(0)], help_text="How much worse is still bearable."
    )
    ramp = models.JSONField(
        default=list,
        blank=True,
        validators=[validate_ramp],
        help_text='Steps of the challengers\' share, such as [{"hours": 0, "share": 0.1}, {"hours": 24, "share": 0.5}]; '
        "empty: the weights from the start.",
    )
    automatic = models.BooleanField(default=True, help_text="Promote or roll back by itself when the answer is clear.")

    # the answer
    verdict = models.CharField(max_length=16, choices=Verdict, blank=True)
    reason = models.TextField(blank=True, help_text="One sentence for people.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["agent", "name"], name="experiment_name_unique"),
            models.UniqueConstraint(fields=["agent"], condition=Q(state="running"), name="experiment_one_running"),
        ]
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return self.name


class Arm(models.Model):
    """One side of an experiment."""

    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="arms")
    version = models.ForeignKey(
        ModelVersion, null=True, blank=True, on_delete=models.PROTECT, related_name="arms", help_text="Empty: the base."
    )
    best_of = models.PositiveSmallIntegerField(
        null=True,
        blank=True,
        validators=BEST_OF_RANGE,
        help_text="Answers of which the judge picks one, 1 to 8; empty: as the deployment says.",
    )
    weight = models.FloatField(default=1.0, help_text="Share of the traffic, relative to the other arms.")
    is_control = models.BooleanField(default=False, help_text="What the others are compared with.")
    is_stopped = models.BooleanField(default=False, help_text="Gets no traffic any more.")
    requests = models.PositiveBigIntegerField(default=0, editable=False)
    failures = models.PositiveBigIntegerField(default=0, editable=False, help_text="Requests that got no answer.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                F("experiment"),
                Coalesce(F("version"), Value(0)),
                Coalesce(F("best_of"), Value(0)),
                name="arm_unique",
                violation_error_message="An experiment has each version once with each number of answers.",
            ),
            models.UniqueConstraint(fields=["experiment"], condition=Q(is_control=True), name="arm_one_control"),
            models.CheckConstraint(condition=Q(weight__gte=0), name="arm_weight_not_negative"),
        ]
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.experiment_id}: {self.version_id or BASE} x {self.weight:g}"

    @property
    def name(self) -> str:
        """``v2``, or ``v2@4`` with a number of answers of its own."""
        return f"{self.version_name}@{self.best_of}" if self.best_of else self.version_name

    @property
    def version_name(self) -> str:
        return version_name(self.version)


class Assignment(models.Model):
    """Which arm a user or conversation was given last; it changes only when the weights do."""

    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="assignments")
    arm = models.ForeignKey(Arm, on_delete=models.CASCADE, related_name="assignments")
    unit = models.CharField(max_length=200, help_text="The user or conversation that is kept on one side.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["experiment", "unit"], name="assignment_unit_unique")]
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.unit} -> {self.arm_id}"
