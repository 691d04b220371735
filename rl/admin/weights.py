"""Weights of rewards and of decision components on an agent's page, with the defaults beside them."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.utils.safestring import SafeString

from rl.admin.markup import value_table
from rl.models import Agent
from rl.rewards import REWARDS, default_weights
from rl.rewards.weights import decision_weights


class AgentForm(forms.ModelForm):
    class Meta:
        model = Agent
        fields = "__all__"  # noqa: DJ007  the admin's fieldsets name them

    def clean_reward_weights(self) -> dict[str, Any]:
        weights: dict[str, Any] = self.cleaned_data["reward_weights"]
        known = [*REWARDS, *settings.CUSTOM_REWARDS]
        if isinstance(weights, dict) and (unknown := sorted(set(weights) - set(known))):
            raise forms.ValidationError(f"there is no reward {unknown[0]!r}; known: {', '.join(known)}")
        return weights


def reward_defaults() -> SafeString | str:
    """A custom reward's default is in its class, which a page need not load."""
    custom = dict.fromkeys(settings.CUSTOM_REWARDS, "as its class says")
    return value_table({**default_weights(), **custom})


def decision_defaults(agent: Agent) -> SafeString | str:
    """Of the type that the agent's name says, as decisions without an agentType have it."""
    table = decision_weights(agent.name)
    return value_table({f"{scale}: {name}": weight for scale, part in table.items() for name, weight in part.items()})
