"""What a person asked an agent under /try/, as it was answered before a training and as the version in use answers it."""

from __future__ import annotations

from typing import Any, Final

from rl.models import Agent, ModelVersion, Trace, UserTurns, version_name
from rl.models.traces import GATEWAY
from rl.web.conversations import session_of
from rl.web.version_figures import newest_evaluation, sentence

QUESTIONS: Final = 5
LOOKED_THROUGH: Final = 200
"""Newest answers of a person in which questions are looked for."""


def questions_before_and_after(agent: Agent, user_id: int, live: ModelVersion | None) -> list[dict[str, Any]]:
    """The newest questions that began a conversation and that another version than ``live`` has answered, each with that
    answer (``before``, ``before_name``) and with the newest one of ``live`` (``after``), None where it was not asked yet."""
    sides: dict[str, dict[str, Trace]] = {}
    for trace in _answers(agent, user_id):
        is_live = trace.model_version_id == (live.pk if live else None)
        sides.setdefault(trace.prompt_key, {}).setdefault("after" if is_live else "before", trace)
    shown = [of_question for of_question in sides.values() if "before" in of_question][:QUESTIONS]
    whole = Trace.objects.in_bulk([trace.pk for of_question in shown for trace in of_question.values()])
    return [
        {
            "question": whole[row["before"].pk].question,
            "before": whole[row["before"].pk].response,
            "before_name": version_name(row["before"].model_version),
            "after": whole[row["after"].pk].response if "after" in row else None,
        }
        for row in shown
    ]


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
    """Newest first, without their texts."""
    rows = agent.traces.filter(source=GATEWAY, session_id__startswith=session_of(user_id, "")).exclude(response="")
    rows = rows.select_related("model_version").annotate(turns=UserTurns("prompt")).order_by("-created_at")
    return [row for row in rows.only("agent_id", "prompt_key", "model_version")[:LOOKED_THROUGH] if row.turns == 1]
