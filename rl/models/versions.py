"""ModelVersion, Artifact, Evaluation."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from django.db import models
from django.db.models.functions import Lower
from django.utils.translation import gettext_lazy as _

from rl.base.errors import UsageError
from rl.base.manner import LONGEST, QUESTION, SYSTEM, Manner
from rl.config.methods import scoring_methods
from rl.models.agents import Agent

BASE = "base"
"""What the base model of an agent is called where a version could stand."""


class ModelVersion(models.Model):
    """What a training run produced.

    CANDIDATE ──► EVALUATED ──► EXPORTED ──► DEPLOYED ◄──► RETIRED
        │             │
        └─────────────┴──► REJECTED"""

    class Stage(models.TextChoices):
        CANDIDATE = "candidate", _("candidate")  # trained, not measured yet
        EVALUATED = "evaluated", _("evaluated")  # measured; the gate did not reject it
        EXPORTED = "exported", _("exported")  # a file that a server can load exists
        DEPLOYED = "deployed", _("deployed")  # a target serves it
        RETIRED = "retired", _("retired")  # was deployed, is not any more
        REJECTED = "rejected", _("rejected")  # by the gate: it is worse, breaks a guard rail, or gives no finite scores

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="versions")
    name = models.CharField(max_length=64, help_text="v1, v2, v3 … in the order of training.")
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="children")
    stage = models.CharField(max_length=16, choices=Stage, default=Stage.CANDIDATE)
    base_model = models.CharField(max_length=500, help_text="The directory or hub id that it was trained from.")
    instruction = models.CharField(
        max_length=LONGEST,
        blank=True,
        help_text="What it is told with every question, in training and when it is served.",
    )
    instruction_place = models.CharField(
        max_length=16,
        default=QUESTION,
        choices=[(QUESTION, "behind the last question"), (SYSTEM, "at the end of the system prompt")],
    )
    weights = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="worded",
        help_text="Whose weights it has, where it was not trained: an instruction alone makes a version too.",
    )
    step = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="It is what the training of ``weights`` had after so many steps, before its end.",
    )
    feedback_count = models.PositiveIntegerField(help_text="Feedback items it learned from.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            # Lower: names become folders.
            models.UniqueConstraint("agent", Lower("name"), name="version_name_unique"),
        ]
        indexes = [models.Index(fields=["agent", "-created_at"], name="version_agent_newest")]
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.agent.name} {self.name}"

    @property
    def is_reward_model(self) -> bool:
        """It scores answers: it is never in use, exported or served."""
        run = getattr(self, "run", None)
        return run is not None and run.method in scoring_methods()

    @property
    def is_worded(self) -> bool:
        """It was not trained: it is another version, or the base model, that is told its instruction."""
        return bool(self.instruction) and self.step is None and getattr(self, "run", None) is None

    @property
    def trained(self) -> ModelVersion:
        """Whose weights it has, and what these have learned from."""
        return self.weights.trained if self.weights else self

    @property
    def manner(self) -> Manner:
        """How it is asked."""
        run = getattr(self.trained, "run", None)
        thinks = run.config.get("thinks") if run else self.is_worded and self.agent.thinks
        return Manner(bool(thinks), self.instruction, self.instruction_place)

    def require_answers(self) -> None:
        """Raises UsageError for a reward model."""
        if self.is_reward_model:
            raise UsageError(f"{self} is a reward model: it scores answers, and no agent can use it to answer")

    def gguf(self, level: str) -> Artifact | None:
        """Its exported file of that level, which may have been deleted since."""
        return self.artifacts.filter(kind=Artifact.Kind.GGUF, quantization=level).first()

    def move(self, to: Stage) -> bool:
        """One conditional update; False when the arrow does not exist from the stage that the row has now."""
        sources = [source for source, targets in _ARROWS.items() if to in targets]
        changed = type(self).objects.filter(pk=self.pk, stage__in=sources).update(stage=to)
        self.refresh_from_db(fields=["stage"])
        return changed == 1


def version_name(version: ModelVersion | None) -> str:
    """None: the agent's base model."""
    return version.name if version else BASE


_S = ModelVersion.Stage
_ARROWS: dict[ModelVersion.Stage, set[ModelVersion.Stage]] = {
    _S.CANDIDATE: {_S.EVALUATED, _S.REJECTED},
    _S.EVALUATED: {_S.EXPORTED, _S.REJECTED},
    _S.EXPORTED: {_S.DEPLOYED, _S.REJECTED},
    _S.DEPLOYED: {_S.RETIRED},
    _S.RETIRED: {_S.DEPLOYED},
}


class Artifact(models.Model):
    """A file or directory that belongs to a version."""

    class Kind(models.TextChoices):
        ADAPTER = "adapter", _("LoRA adapter")
        MODEL = "model", _("whole model")
        MERGED = "merged", _("merged model")
        LORA = "lora", _("LoRA release")
        GGUF = "gguf", _("GGUF")
        GGUF_LORA = "gguf-lora", _("GGUF adapter")
        ONNX = "onnx", _("ONNX")

    version = models.ForeignKey(ModelVersion, on_delete=models.CASCADE, related_name="artifacts")
    kind = models.CharField(max_length=16, choices=Kind)
    quantization = models.CharField(max_length=16, blank=True)
    path = models.CharField(max_length=1000, help_text="Relative to DATA_DIR, or absolute when exported elsewhere.")
    size_bytes = models.BigIntegerField()
    sha256 = models.CharField(max_length=64, help_text="Of the file; of a directory: of its files' names and hashes.")
    details = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["version", "kind", "quantization"], name="artifact_unique"),
        ]
        ordering = ["created_at"]

    def __str__(self) -> str:
        return f"{self.version_id} {self.kind} {self.quantization}".strip()


class Evaluation(models.Model):
    """A version measured on held-out preference pairs, beside the base model and the version in use."""

    class Verdict(models.TextChoices):
        PROMOTE = "promote", _("promote")
        REJECT = "reject", _("reject")
        UNDECIDED = "undecided", _("undecided")

    version = models.ForeignKey(ModelVersion, on_delete=models.CASCADE, related_name="evaluations")
    training_set = models.ForeignKey("rl.TrainingSet", on_delete=models.PROTECT, related_name="evaluations")
    against = models.ForeignKey(
        ModelVersion,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="The version in use that it was compared with; empty: the base model.",
    )
    artifact = models.ForeignKey(
        Artifact,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="evaluations",
        help_text="The exported file that was measured; empty: the weights as they were trained.",
    )
    pairs = models.PositiveIntegerField()
    prompts = models.PositiveIntegerField()
    accuracy = models.FloatField(help_text="Share of held-out pairs whose chosen answer is the likelier one, 0 to 1.")
    base_accuracy = models.FloatField()
    against_accuracy = models.FloatField(help_text="Of the version in use.")
    verdict = models.CharField(max_length=16, choices=Verdict)
    report = models.JSONField(help_text="Intervals, margins and the worst examples.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["version", "-created_at"], name="evaluation_newest")]
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.version_id}: {self.verdict}"

    @property
    def before_and_after(self) -> list[dict[str, Any]]:
        """``prompt``, ``before``, ``after``: prompts that the version never learned from, with the answers of what it was
        measured against and of the version, in an order that has nothing to do with the answers; and what was thought of
        them, where the report has it. Of reports of earlier releases those that the guard rails asked, if they were kept."""
        report = self.report if isinstance(self.report, dict) else {}
        guards, before = report.get("guards"), "current" if self.against_id else "base"
        samples = guards.get("samples", []) if isinstance(guards, dict) else []
        pairs = report.get("compared") or [
            {"prompt": sample["prompt"], "before": sample[before]["answer"], "after": sample["new"]["answer"]}
            for sample in samples
            if isinstance(sample.get(before), dict) and isinstance(sample.get("new"), dict)
        ]
        return sorted(pairs, key=lambda pair: sha256(pair["prompt"].encode("utf-8", "surrogatepass")).digest())
