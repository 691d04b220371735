"""Weights of rewards and of decision components on an agent's page, with the defaults beside them, and the choice among what
the operator registered."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.utils.safestring import SafeString

from rl import registered
from rl.admin.markup import value_table
from rl.base.errors import BadFile, UsageError
from rl.base.names import unknown_name
from rl.config import authority
from rl.config.embedded_models import EMBEDDED_MODELS
from rl.config.reward_weights import decision_weights
from rl.dataset_builder.wording import Part, template_names
from rl.evaluation.judges.servers import servers
from rl.models import Agent
from rl.models.agents import validate_overrides
from rl.rewards import REWARDS, default_weights


class BaseModelField(forms.ChoiceField):
    """One that the operator registered; or the one that the agent has, by whatever way it came to it."""

    def __init__(self, own: str) -> None:
        labels = {name: f"{name} ({label})" for name, label in EMBEDDED_MODELS.items()}
        labels |= {value: f"{name} ({value})" for name, value in settings.BASE_MODELS.items()}
        super().__init__(
            choices=[*({own: own} | labels).items()], help_text="The operator registers more with BASE_MODELS."
        )


class JudgeField(forms.ChoiceField):
    """One that the operator registered; or the one that the agent has, whose entry may be gone."""

    def __init__(self, own: str) -> None:
        names = {own: own, "": "learns from the users' ratings"}
        try:
            names |= {name: f"{name} ({server.model})" for name, server in servers().items()}
            help_text = "The operator registers others with JUDGES_FILE."
        except BadFile as error:
            help_text = f"JUDGES_FILE: {error}"
        super().__init__(choices=[*names.items()], required=False, help_text=help_text)


class TemplateField(forms.ChoiceField):
    """A template that there is; or the one that the agent has, whose file may be gone."""

    def __init__(self, own: str, part: Part) -> None:
        names = {own: own, "": "as Ratchet does", **{name: name for name in template_names(part)}}
        help_text = "The operator writes others as files of PROMPT_TEMPLATES_DIR."
        super().__init__(choices=[*names.items()], required=False, help_text=help_text)


class AgentForm(forms.ModelForm):
    class Meta:
        model = Agent
        fields = "__all__"  # noqa: DJ007  the admin's fieldsets name them

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if "base_model" in self.fields:
            self.fields["base_model"] = BaseModelField(self.instance.base_model)
        if "judge" in self.fields:
            self.fields["judge"] = JudgeField(self.instance.judge)
        parts: tuple[Part, ...] = ("prompt", "answer")
        for name, part in ((f"{part}_template", part) for part in parts):
            if name in self.fields:
                self.fields[name] = TemplateField(getattr(self.instance, name), part)

    def clean_training_overrides(self) -> dict[str, Any]:
        overrides: dict[str, Any] = self.cleaned_data["training_overrides"]
        validate_overrides(overrides)
        try:
            registered.require(authority.choices(overrides))
        except UsageError as error:
            raise forms.ValidationError(str(error)) from error
        return overrides

    def clean_reward_weights(self) -> dict[str, Any]:
        weights: dict[str, Any] = self.cleaned_data["reward_weights"]
        known = [*REWARDS, *settings.CUSTOM_REWARDS]
        if isinstance(weights, dict) and (unknown := sorted(set(weights) - set(known))):
            raise forms.ValidationError(unknown_name("reward", unknown[0], known))
        return weights


def reward_defaults() -> SafeString | str:
    """A custom reward's default is in its class, which a page need not load."""
    custom = dict.fromkeys(settings.CUSTOM_REWARDS, "as its class says")
    return value_table({**default_weights(), **custom})


def decision_defaults(agent: Agent) -> SafeString | str:
    """The weights for the agent type that the agent's name says, which decisions without an agentType get."""
    table = decision_weights(agent.name)
    return value_table({f"{scale}: {name}": weight for scale, part in table.items() for name, weight in part.items()})
