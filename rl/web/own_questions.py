"""What a person asked an agent under /try/, as it was answered before a training and as the version in use answers it."""

from __future__ import annotations

from typing import Any, Final

from rl.models import Agent, ModelVersion, Trace, version_name
from rl.models.traces import GATEWAY
from rl.web.conversations import session_of
from rl.web.version_figures import newest_evaluation, sentence

QUESTIONS: Final = 5
LOOKED_THROUGH: Final = 200
"""Newest answers of a person in which questions are looked for."""


def questions_before_and_after(agent: Agent, user_id: int, live: ModelVersion | None) -> list[dict[str, Any]]:
    """The newest questions that began a conversation and that another version than ``live`` has answered, each with that
    answer (``before``, ``before_name``) and with the newest one of ``live`` (``after``), None where it was not asked yet."""
    rows: dict[str, dict[str, Any]] = {}
    for trace in _answers(agent, user_id):
        row = rows.setdefault(trace.prompt_key, {"question": trace.question, "before": None, "after": None})
        if trace.model_version_id == (live.pk if live else None):
            row["after"] = row["after"] or trace.response
        elif row["before"] is None:
            row |= {"before": trace.response, "before_name": version_name(trace.model_version)}
    return [row for row in rows.values() if row["before"]][:QUESTIONS]


def last_verdict(agent: Agent) -> dict[str, str]:
    """``text`` and ``version`` of the newest version that a run made; empty where there is none or it was not measured."""
    run = agent.runs.exclude(version=None).select_related("version").order_by("-created_at").first()
    evaluation = newest_evaluation(run.version) if run and run.version else None
    if evaluation is None:
        return {"text": "", "version": ""}
    verdict = sentence(evaluation)
    more = f"About {verdict.ratings_needed} more ratings would tell." if verdict.ratings_needed else ""
    return {
        "text": " ".join(filter(None, [f"{verdict.heading}.", verdict.text, more])),
        "version": evaluation.version.name,
    }


def _answers(agent: Agent, user_id: int) -> list[Trace]:
    """Newest first."""
    rows = agent.traces.filter(source=GATEWAY, session_id__startswith=session_of(user_id, "")).exclude(response="")
    newest = rows.select_related("model_version").order_by("-created_at")[:LOOKED_THROUGH]
    return [trace for trace in newest if sum(message["role"] == "user" for message in trace.prompt) == 1]
