from __future__ import annotations

from django.db import models, transaction
from django.db.models import Q

from rl.errors import UsageError
from rl.models.agents import Agent
from rl.models.versions import ModelVersion


class Deployment(models.Model):
    """A version under a name on a target.

    The alias ``champion`` marks the version in use of an agent, ``previous`` the one before it, for one-step rollback.
    """

    class Target(models.TextChoices):
        NONE = "none", "none (files only)"
        OLLAMA = "ollama", "Ollama"
        LLAMA_CPP = "llama_cpp", "llama.cpp"

    class Alias(models.TextChoices):
        CHAMPION = "champion", "champion"
        PREVIOUS = "previous", "previous"

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="deployments")
    version = models.ForeignKey(ModelVersion, on_delete=models.CASCADE, related_name="deployments")
    target = models.CharField(max_length=16, choices=Target, default=Target.NONE)
    model_name = models.CharField(max_length=200, blank=True, help_text="The name under which the target serves it.")
    alias = models.CharField(max_length=16, choices=Alias, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["agent", "alias"], condition=~Q(alias=""), name="deployment_alias_unique"),
        ]
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.version_id} on {self.target} {self.alias}".strip()

    @classmethod
    def champion(cls, agent: Agent) -> ModelVersion | None:
        """The version in use; None while the agent still uses its base model."""
        return ModelVersion.objects.filter(deployments__agent=agent, deployments__alias=cls.Alias.CHAMPION).first()

    @classmethod
    def promote(cls, version: ModelVersion) -> None:
        """Makes ``version`` champion and today's champion ``previous``, in one transaction.

        Raises UsageError for a reward model.
        """
        if version.is_reward_model:
            raise UsageError(f"{version} is a reward model: it scores answers, and no agent can use it to answer")
        with transaction.atomic():
            aliased = cls.objects.select_for_update().filter(agent_id=version.agent_id)
            champion = aliased.filter(alias=cls.Alias.CHAMPION).first()
            if champion is not None and champion.version_id == version.pk:
                return
            aliased.filter(alias=cls.Alias.PREVIOUS).update(alias="")
            aliased.filter(alias=cls.Alias.CHAMPION).update(alias=cls.Alias.PREVIOUS)
            served = aliased.filter(version=version).order_by("-created_at").first()
            row = served or cls(agent_id=version.agent_id, version=version)
            row.alias = cls.Alias.CHAMPION
            row.save()


class Experiment(models.Model):
    """A sticky, weighted split of an agent's traffic between versions."""

    class State(models.TextChoices):
        DRAFT = "draft", "draft"
        RUNNING = "running", "running"
        STOPPED = "stopped", "stopped"

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="experiments")
    name = models.CharField(max_length=100)
    state = models.CharField(max_length=16, choices=State, default=State.DRAFT)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    stopped_at = models.DateTimeField(null=True, blank=True)

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
    weight = models.FloatField(default=1.0, help_text="Share of the traffic, relative to the other arms.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["experiment", "version"], name="arm_version_unique"),
            models.UniqueConstraint(fields=["experiment"], condition=Q(version__isnull=True), name="arm_one_base"),
            models.CheckConstraint(condition=Q(weight__gte=0), name="arm_weight_not_negative"),
        ]
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.experiment_id}: {self.version_id or 'base'} x {self.weight:g}"


class Assignment(models.Model):
    """Which arm a user or conversation was given; it keeps it."""

    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="assignments")
    arm = models.ForeignKey(Arm, on_delete=models.CASCADE, related_name="assignments")
    unit = models.CharField(max_length=200, help_text="The user or conversation that is kept on one side.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["experiment", "unit"], name="assignment_unit_unique")]
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.unit} -> {self.arm_id}"
