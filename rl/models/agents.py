"""Agent."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Self

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models.functions import Lower
from django.utils import timezone

from rl.base.errors import UsageError
from rl.base.names import unknown_name
from rl.config import AUTO, PRESETS, TrainingConfig, authority, check_overrides, preset
from rl.config.lengths import lengths_of
from rl.config.levels import LEVELS
from rl.config.methods import find_method, scoring_methods
from rl.models import validators


def default_base_model() -> str:
    return str(settings.DEFAULT_BASE_MODEL)


class Agent(models.Model):
    """A named, model-backed function of somebody's app."""

    class PairType(models.TextChoices):
        PREFERENCE = "preference", "rated answers, picks and corrections"
        WIDGET = "widget", "widget selection"
        FIXTURE = "fixture", "fixture selection"
        BOTH = "both", "widget and fixture selection"

    class AnswerKind(models.TextChoices):
        CLOSED = "closed", "one of a closed set"
        STRUCTURED = "structured", "JSON with fields"
        FREE = "free", "free"

    class Decider(models.TextChoices):
        JUDGE = "judge", "the gate, and people's picks where it cannot tell"
        PICKS = "picks", "people's picks alone"
        OPERATOR = "operator", "a person, who is told what is known"

    class AnswerFormat(models.TextChoices):
        JSON = "json", "JSON"
        CODE = "code", "code"
        MARKDOWN = "markdown", "Markdown"
        PLAIN = "plain", "plain text"
        TOOL_CALL = "tool_call", "tool calls"

    name = models.CharField(
        max_length=64, validators=[validators.validate_name], help_text="Letters, digits, '.', '_' and '-'."
    )
    description = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    plan_seen_at = models.DateTimeField(null=True, editable=False)
    """When somebody first saw what a training would learn from."""

    # the model
    base_model = models.CharField(
        max_length=500,
        default=default_base_model,
        help_text="smollm2, tiny, a hub id such as Qwen/Qwen2.5-1.5B-Instruct (with @revision: that one), a folder, or a "
        "GGUF file.",
    )
    system_prompt = models.TextField(blank=True)
    context_length = models.PositiveIntegerField(
        default=1024, validators=[MinValueValidator(16)], help_text="Tokens of prompt and answer together."
    )
    response_length = models.PositiveIntegerField(
        default=256, validators=[MinValueValidator(1)], help_text="Most tokens of one answer."
    )

    thinks = models.BooleanField(
        default=False,
        help_text="It thinks before it answers, where its chat template can: trained, measured and served alike.",
    )

    # training
    pair_type = models.CharField(max_length=16, choices=PairType, default=PairType.PREFERENCE)
    prompt_template = models.CharField(
        max_length=64, blank=True, help_text="How choices of widgets are asked for; empty: as Ratchet asks."
    )
    answer_template = models.CharField(
        max_length=64, blank=True, help_text="How choices of widgets are answered; empty: as Ratchet answers."
    )
    preset = models.CharField(max_length=32, choices=[(name, name) for name in PRESETS], default=AUTO)
    training_overrides = models.JSONField(
        default=dict,
        blank=True,
        validators=[validators.validate_overrides],
        help_text="Hyper-parameters that differ from the preset.",
    )

    # rewards and labels
    reward_weights = models.JSONField(
        default=dict,
        blank=True,
        validators=[validators.validate_reward_weights],
        help_text="Reward name to weight, where it is not the default; 0 switches a reward off.",
    )
    decision_weights = models.JSONField(
        default=dict,
        blank=True,
        validators=[validators.validate_decision_weights],
        help_text="Time scale to component to weight, where it is not the default of the agent's type; 0 switches it off.",
    )
    answer_format = models.CharField(
        max_length=16, choices=AnswerFormat, blank=True, help_text="What its answers should be; empty: any text."
    )
    answer_kind = models.CharField(
        max_length=16,
        choices=AnswerKind,
        blank=True,
        help_text="Of what kind its answers are: of a closed set, of a structure (JSON), which are right or wrong, or free; "
        "empty: found out from the accepted ones.",
    )
    answer_values = models.JSONField(
        default=list,
        blank=True,
        validators=[validators.validate_answer_values],
        help_text="The answers there are, a JSON list of texts, where they are of a closed set; empty: found out.",
    )
    answer_schema = models.JSONField(
        default=dict,
        blank=True,
        validators=[validators.validate_answer_schema],
        help_text="The JSON schema of its answers, where they are JSON objects; fields come in the order of 'required'. "
        "Empty: learned from the accepted ones.",
    )
    keep_to_answers = models.BooleanField(
        default=True,
        help_text="Where its answers are of a closed set, or JSON with fields, it is made to say nothing else.",
    )
    larger_agent = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="Whose model is asked where the own one is unsure which answer of a closed set is right.",
    )
    unsure_below = models.FloatField(
        default=0.6,
        validators=[MinValueValidator(0), MaxValueValidator(1)],
        help_text="Share of the best answer below which the larger agent is asked.",
    )
    label_threshold = models.FloatField(
        default=0.6,
        validators=[MinValueValidator(0), MaxValueValidator(1)],
        help_text="A trace that nobody labelled counts as good from this reward on.",
    )
    auto_label_threshold = models.FloatField(
        null=True,
        blank=True,
        validators=[MinValueValidator(0.5), MaxValueValidator(1)],
        help_text="Proposed labels are trained on from this confidence on; empty: never.",
    )

    # raters
    second_answers = models.PositiveSmallIntegerField(
        default=20, help_text="Pairs of answers made in idle time that may wait to be compared; 0: none are made."
    )
    rater_cap = models.FloatField(
        default=1.0,
        validators=[MinValueValidator(0.05), MaxValueValidator(1)],
        help_text="The most that one of several raters may weigh in a training, as a share of all; 1: no limit.",
    )

    # the gate
    gate_margin = models.FloatField(
        default=0.0,
        validators=[MinValueValidator(0), MaxValueValidator(0.5)],
        help_text="Loss of accuracy that is bearable (0.02: two points). 0: a new version must be better than the one in "
        "use; above: it is enough that it is not worse by more than this.",
    )
    guard_limits = models.JSONField(
        default=dict,
        blank=True,
        validators=[validators.validate_guard_limits],
        help_text="Guard rail to limit, where it is not the default; null switches a guard rail off.",
    )

    group_by = models.CharField(
        max_length=200,
        blank=True,
        validators=[validators.validate_group_keys],
        help_text="Keys of its traces' details, such as language, plan: a version that is worse for a group that they make "
        "is not promoted by itself.",
    )

    judge = models.CharField(
        max_length=64,
        blank=True,
        help_text="Who compares fresh answers: a name of JUDGES_FILE; empty: a judge that learns from the users' ratings.",
    )

    promoted_by = models.CharField(
        max_length=16,
        choices=Decider,
        default=Decider.JUDGE,
        help_text="Who puts a new version into use. Where answers are right or wrong, picks are not asked for.",
    )

    # online learning
    online_learning = models.BooleanField(
        default=True, help_text="Retrain by itself. Also needs ENABLE_ONLINE_LEARNING=1."
    )
    min_samples_to_retrain = models.PositiveIntegerField(
        default=100, validators=[MinValueValidator(1)], help_text="New ratings that start a run."
    )
    retrain_interval_hours = models.PositiveIntegerField(
        default=24,
        validators=[MinValueValidator(1), MaxValueValidator(8760)],
        help_text="Hours after which fewer new ratings start a run too.",
    )
    auto_export = models.BooleanField(default=True, help_text="Export a version that the gate promotes.")
    auto_deploy = models.BooleanField(default=False, help_text="Deploy a version that the gate promotes.")
    deploy_target = models.CharField(
        max_length=16,
        choices=[("ollama", "Ollama"), ("llama_cpp", "llama.cpp"), ("adapter", "llama.cpp, all on one base model")],
        default="ollama",
        help_text="Where versions are deployed.",
    )
    keep_versions = models.PositiveIntegerField(
        default=3,
        validators=[MinValueValidator(1)],
        help_text="Versions that stay deployed and exported, beside the one in use and the one before it.",
    )
    export_quantization = models.CharField(
        max_length=16, default="q8_0", validators=[validators.validate_level], help_text=f"One of {', '.join(LEVELS)}."
    )

    class Meta:
        constraints = [
            # Names become folders, and some file systems do not tell A from a.
            models.UniqueConstraint(Lower("name"), name="agent_name_unique"),
        ]
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def note_plan_seen(self) -> None:
        """Somebody has seen what a training would learn from: from now on imported ratings may start one."""
        if self.plan_seen_at is None:
            self.plan_seen_at = timezone.now()
            type(self).objects.filter(pk=self.pk, plan_seen_at=None).update(plan_seen_at=self.plan_seen_at)

    @classmethod
    def new(cls, name: str, **values: Any) -> Self:
        """Not saved; with the lengths of its type, where the name is that of one."""
        return cls(name=name, **{**lengths_of(name), **values})

    @classmethod
    def by_name(cls, name: str) -> Agent:
        """Whatever the case of the name. Raises UsageError that lists the agents there are."""
        if agent := cls.objects.filter(name__iexact=name).first():
            return agent
        raise UsageError(unknown_name("agent", name, cls.objects.values_list("name", flat=True)[:20]))

    def clean(self) -> None:
        """Keeps the name where versions are: with another one they would be tested on what they learned, and be lost."""
        before = type(self).objects.filter(pk=self.pk).values_list("name", flat=True).first()
        if before is not None and before != self.name and self.training_sets.exists():
            raise ValidationError({"name": "cannot change any more: it decides which prompts are held out for testing"})
        if self.pk is not None and self.larger_agent_id == self.pk:
            raise ValidationError({"larger_agent": "must be another agent"})
        if isinstance(self.training_overrides, dict):
            validators.as_validation_error(self.training_config)

    def _read_instruction(self) -> dict[str, str]:
        """That of the version in use, as settings of a run."""
        version = self.pk and self.versions.filter(deployments__alias="champion").first()
        return {"instruction": version.instruction, "instruction_place": version.instruction_place} if version else {}

    def training_config(self, method: str = "dpo", preset_name: str = "") -> TrainingConfig:
        """The agent's preset, with its lengths and overrides; or the named one, with its lengths alone. Names of what the
        operator registered are left out here (rl/runs/choosing.py).

        Overrides of hyper-parameters that the method has not are for other methods. Raises UsageError for one that none has,
        or that nobody but the operator may set: it is not run, however it came into the row."""
        name = preset_name or self.preset
        start = preset(name, method)
        known = {field.name for field in fields(start)}
        most = PRESETS[name].get("max_length", self.context_length)
        values: dict[str, Any] = {"max_length": min(most, self.context_length)}
        if method not in scoring_methods():  # these read what people read
            values["thinks"] = self.thinks
            if not find_method(method).rows.of_tasks:  # a task has words of its own
                values |= self._read_instruction()
        if not preset_name:
            check_overrides(self.training_overrides)
            values |= authority.without_choices(self.training_overrides)
        values = {"max_new_tokens": min(self.response_length, int(values["max_length"]) // 2), **values}
        return start.with_overrides({name: value for name, value in values.items() if name in known})
