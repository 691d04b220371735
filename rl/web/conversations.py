"""What a page may ask of an agent: the turns of a conversation, and nothing else.

The model, the parameters, the system prompt and whom the question counts for are the site's to choose."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import BooleanField, ExpressionWrapper, Q
from django.utils.translation import gettext

from rl.base.errors import UsageError
from rl.base.records import Message
from rl.models import Agent, Deployment, Evaluation, ModelVersion, Trace, UserTurns, version_name
from rl.models.traces import GATEWAY
from rl.serving.gateway.routing import KnownKey, Route, route
from rl.serving.gateway.table import load
from rl.web.front.answers import GatewayQuestion
from rl.web.version_figures import newest_evaluation, sentence

QUESTIONS: Final = 5
LOOKED_THROUGH: Final = 200
"""Newest answers of a person in which questions are looked for."""


def questions_before_and_after(agent: Agent, user_id: int, live: ModelVersion | None) -> list[dict[str, Any]]:
    """The newest questions that began a conversation and that another version than ``live`` has answered, each with that
    answer (``before``, ``before_name``) and with the newest one of ``live`` (``after``), None where it was not asked yet."""
    sides: dict[str, dict[str, Trace]] = {}
    rows = agent.traces.filter(source=GATEWAY, session_id__startswith=session_of(user_id, "")).exclude(response="")
    rows = rows.select_related("model_version").annotate(turns=UserTurns("prompt")).order_by("-created_at")
    for trace in rows.only("agent_id", "prompt_key", "model_version")[:LOOKED_THROUGH]:
        if trace.turns != 1:
            continue
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
    more = gettext("Now people have to pick: compare answers under Rate.") if verdict.duels else ""
    return {
        "text": " ".join(filter(None, [f"{verdict.heading}.", verdict.text, more])),
        "version": evaluation.version.name,
    }


@dataclass(frozen=True, slots=True)
class BeforeAndAfter:
    evaluation: Evaluation
    """With answers."""
    is_in_use: bool


def newest_answers(agent: Agent, version_name: str = "") -> BeforeAndAfter | None:
    """Those of the named version; without a name, of the version in use, else of the newest that has some."""
    champion = Deployment.champion(agent)
    rows = Evaluation.objects.filter(version__agent=agent, artifact=None)
    rows = rows.select_related("version__agent", "against", "training_set")
    if version_name:
        rows = rows.filter(version__name__iexact=version_name)
    in_use = ExpressionWrapper(Q(version=champion), BooleanField())
    for row in rows.order_by(in_use.desc(), "-created_at")[:20].iterator(chunk_size=1):  # reports are long
        if row.before_and_after:
            return BeforeAndAfter(row, champion is not None and row.version_id == champion.pk)
    return None


MOST_TURNS: Final = 199
"""Questions and answers together; a longer conversation would fit no model that is served here."""
STEADY: Final = 0.2
"""The temperature of the page's questions, unless one version answers twice: near what the gate measures, which takes the
likeliest words. Small models wander at the 0.8 of llama.cpp."""
_ROLES: Final = ("user", "assistant")
_NAME: Final = re.compile(r"[0-9a-z-]{1,64}")


@dataclass(frozen=True, slots=True)
class Drawn:
    """One side of a pair."""

    trace_id: UUID
    version: str
    parameters: Mapping[str, float]


def read_question(
    body: bytes, agent: Agent, user_id: int, rater: str, drawn: Drawn | None = None, pinned: str = ""
) -> GatewayQuestion:
    """``body``: {messages, conversation} in JSON. ``drawn``: what is to answer, blind; ``pinned``: the name of the version
    that is to. Raises UsageError."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError("the question is not JSON; reload the page") from None
    if not isinstance(document, dict):
        raise UsageError("the question must be a JSON object; reload the page")
    chat = {"model": agent.name, "messages": _turns(document.get("messages")), "stream": True, "user": rater}
    chat |= {"temperature": STEADY}
    if pinned:
        chat |= {"model": f"{agent.name}@{pinned}"}
    if drawn:
        chat |= {"model": f"{agent.name}@{drawn.version}", **drawn.parameters}
    conversation = document.get("conversation")
    if not isinstance(conversation, str) or not _NAME.fullmatch(conversation):
        raise UsageError("conversation must be a name of 1 to 64 of the letters a-z, digits and '-'")
    session = session_of(user_id, conversation)
    blind_id = drawn.trace_id if drawn else None
    return GatewayQuestion(KnownKey.of_person(user_id, agent.pk), json.dumps(chat).encode(), session, blind_id)


def route_of(agent: Agent, user_id: int, rater: str) -> Route:
    """As the gateway would route a question."""
    return route(load(), KnownKey.of_person(user_id, agent.pk), agent.name, rater, datetime.now(UTC))


def session_of(user_id: int, conversation: str) -> str:
    """Names a person's conversation; without ``conversation``, how the sessions of all his conversations begin."""
    return f"try-{user_id}-{conversation}"


def why_nothing_answers(agent: Agent, user_id: int, rater: str) -> tuple[str, str]:
    """The reason, and the version that should answer; empty where one does."""
    chosen = route_of(agent, user_id, rater).served
    return ("", "") if chosen.upstream else (chosen.problem, chosen.version)


def _turns(messages: object) -> list[Message]:
    """Questions and answers in turn, a question last. Raises UsageError."""
    if not isinstance(messages, list) or len(messages) % 2 == 0:
        raise UsageError("messages must be questions and answers in turn, and end with a question")
    if len(messages) > MOST_TURNS:
        raise UsageError(f"a conversation has at most {MOST_TURNS} turns; start a new one")
    turns: list[Message] = []
    for number, message in enumerate(messages):
        role = _ROLES[number % 2]
        if not isinstance(message, dict) or message.get("role") != role:
            raise UsageError(f"messages[{number}] must be of the {role}")
        content = message.get("content")
        if not isinstance(content, str) or not content.strip():
            raise UsageError(f"messages[{number}] must be text that is not empty")
        turns.append({"role": role, "content": content})
    return turns
