"""What the answers of an agent are kept to where they are served: one of a closed set, or a JSON schema."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.db.models import Q

from rl.base.records import Choosing
from rl.collect.feedback.closed_answers import ClosedAnswers, question, read_closed_answers
from rl.collect.feedback.structured_answers import StructuredAnswers, read_structured_answers
from rl.models import Agent, Deployment, Feedback

ANYHOW_SECONDS: Final = 60.0
SETTINGS: Final = ("system_prompt", "answer_kind", "answer_values", "answer_schema", "keep_to_answers")
"""Fields of an agent that tell what its answers are kept to."""
_Target = Deployment.Target
_SERVED: Final = Q(target=_Target.LLAMA_CPP, pid__isnull=False) | Q(target__in=(_Target.OLLAMA, _Target.OPENAI))
KeptAnswers = ClosedAnswers | StructuredAnswers


@dataclass(slots=True)
class Reader:
    """What was read last, by agent; again only where its settings are others or something was said since, and once a minute
    anyhow: feedback is also held back, and forgotten."""

    _known: dict[int, tuple[list[Any], KeptAnswers | None]] = field(default_factory=dict)
    _newest: int = -1
    _all_at: float = float("-inf")

    def look(self) -> None:
        """Forgets what has changed. Two queries."""
        newest = Feedback.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        if time.monotonic() - self._all_at > ANYHOW_SECONDS or newest < self._newest:
            self._known, self._all_at = {}, time.monotonic()
        elif newest > self._newest:
            new = Feedback.objects.filter(pk__gt=self._newest, pk__lte=newest).order_by()
            for agent_id in new.values_list("agent_id", flat=True).distinct():
                self._known.pop(agent_id, None)
        self._newest = newest

    def of(self, agent: Agent) -> KeptAnswers | None:
        """Four queries at most for an agent that is not known."""
        settings = [getattr(agent, name) for name in SETTINGS]
        if agent.pk not in self._known or self._known[agent.pk][0] != settings:
            self._known[agent.pk] = settings, read_kept_answers(agent)
        return self._known[agent.pk][1]


def read_kept_answers(agent: Agent) -> KeptAnswers | None:
    """``agent``: with its settings of answers and its system prompt. None: it says what it likes, also where it could be
    kept to something and its settings switch that off."""
    if not agent.keep_to_answers:
        return None
    return read_closed_answers(agent) or read_structured_answers(agent)


def choosing_for(agent: Agent, rows: Iterable[Mapping[str, Any]]) -> Choosing | None:
    """How the prompts of the rows would be answered if nobody had corrected them; None where answers are said freely."""
    targets = _targets(agent)
    closed = read_kept_answers(agent) if targets else None
    if not isinstance(closed, ClosedAnswers):
        return None
    stored = list(rows)
    if not all(closed.answers(row["prompt"], agent.system_prompt) for row in stored):
        return None
    if _Target.LLAMA_CPP not in targets:
        return Choosing(closed.values, {}, by_model_alone=True)
    asked = {row["prompt_key"]: question(row["prompt"]) for row in stored}
    supports = {key: closed.remembered.support(text, of_others=True) for key, text in asked.items()}
    answered = dict(reversed(closed.answered))
    accepted = {key: answered[text] for key, text in asked.items() if text in answered}
    return Choosing(closed.values, supports, accepted=accepted)


def schema_for(agent: Agent) -> Mapping[str, Any] | None:
    """The schema that answers keep to; None where they are said freely."""
    kept = read_kept_answers(agent) if _targets(agent) else None
    return kept.schema if isinstance(kept, StructuredAnswers) else None


def _targets(agent: Agent) -> set[str]:
    """What serves the agent, and llama.cpp where its versions are going to be served by it. Ollama is what every agent
    begins with, also one that nobody serves."""
    chosen = {agent.deploy_target} & {_Target.LLAMA_CPP.value}
    return chosen | set(Deployment.objects.filter(_SERVED, agent=agent).values_list("target", flat=True))
