"""Where versions answer: deployments."""

from typing import Final

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models, transaction
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from rl.base.errors import UsageError
from rl.models.agents import Agent
from rl.models.versions import BASE, ModelVersion, version_name

MOST_ANSWERS: Final = 8
"""That are asked for to give the best of them."""
BEST_OF_RANGE: Final = [MinValueValidator(1), MaxValueValidator(MOST_ANSWERS)]


class Deployment(models.Model):
    """A version, or an agent's base model, under a name on a target.

    The alias ``champion`` marks the version in use of an agent, ``previous`` the one before it, for one-step rollback. An
    agent whose champion is not a row uses its base model."""

    class Target(models.TextChoices):
        NONE = "none", _("none (files only)")
        OLLAMA = "ollama", _("Ollama")
        LLAMA_CPP = "llama_cpp", _("llama.cpp")
        ADAPTER = "adapter", _("llama.cpp, an adapter on the server of the base model")
        OPENAI = "openai", _("another server with OpenAI's API")
        SHARED = "shared", _("the server of the version whose weights it has")  # it is told an instruction

    class Alias(models.TextChoices):
        CHAMPION = "champion", "champion"
        PREVIOUS = "previous", "previous"

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="deployments")
    version = models.ForeignKey(
        ModelVersion,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="deployments",
        help_text="Empty: the base model of the agent.",
    )
    target = models.CharField(max_length=16, choices=Target, default=Target.NONE)
    model_name = models.CharField(max_length=200, blank=True, help_text="The name under which the target serves it.")
    alias = models.CharField(max_length=16, choices=Alias, blank=True)
    best_of = models.PositiveSmallIntegerField(
        default=1,
        validators=BEST_OF_RANGE,
        help_text="Answers that are asked for; the agent's judge picks the one that is given. 1 to 8.",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    # what is served, and how
    path = models.CharField(
        max_length=1000, blank=True, help_text="The file, relative to DATA_DIR or absolute; empty: not ours."
    )
    sha256 = models.CharField(max_length=64, blank=True)
    settings = models.JSONField(default=dict, blank=True, help_text="Of the hosting profile: slots, context, threads.")

    # where; llama.cpp is a process of ours on this machine
    url = models.CharField(
        max_length=500, blank=True, help_text="Of the server, without /v1; empty for Ollama, which is at OLLAMA_URL."
    )
    api_key_env = models.CharField(
        max_length=100, blank=True, help_text="The environment variable that holds the server's API key."
    )
    host = models.CharField(max_length=255, blank=True, help_text="The machine that its process runs on.")
    pid = models.PositiveIntegerField(null=True, blank=True)
    pid_started = models.FloatField(null=True, blank=True, help_text="Seconds since 1970: numbers are used again.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["agent", "alias"], condition=~Q(alias=""), name="deployment_alias_unique"),
        ]
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.version_id or BASE} on {self.target} {self.alias}".strip()

    @property
    def version_name(self) -> str:
        return version_name(self.version)

    @classmethod
    def champion(cls, agent: Agent) -> ModelVersion | None:
        """The version in use; None while the agent still uses its base model."""
        return ModelVersion.objects.filter(deployments__agent=agent, deployments__alias=cls.Alias.CHAMPION).first()

    @classmethod
    def promote(cls, version: ModelVersion) -> None:
        """Makes ``version`` champion and today's champion ``previous``, in one transaction.

        Raises UsageError for a reward model."""
        version.require_answers()
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

    @classmethod
    def swap(cls, agent: Agent) -> ModelVersion | None:
        """Champion and previous change places, in one transaction; the new champion, None for the base model.

        Doing it twice changes nothing. Raises UsageError when the agent has used its base model only."""
        with transaction.atomic():
            aliased = cls.objects.select_for_update(of=("self",)).filter(agent=agent)
            rows = {row.alias: row for row in aliased.exclude(alias="").select_related("version")}
            if not rows:
                raise UsageError(f"{agent.name} has no version to go back to: it has used its base model only")
            aliased.exclude(alias="").update(alias="")
            other = {cls.Alias.CHAMPION: cls.Alias.PREVIOUS, cls.Alias.PREVIOUS: cls.Alias.CHAMPION}
            for alias, row in rows.items():
                aliased.filter(pk=row.pk).update(alias=other[cls.Alias(alias)])
        back = rows.get(cls.Alias.PREVIOUS)
        return back.version if back else None
