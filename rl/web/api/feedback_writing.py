"""Stores what one body says, of whatever kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from rest_framework.exceptions import NotFound, PermissionDenied, ValidationError

from rl.collect.feedback import write
from rl.collect.feedback.events import UnreadTrace
from rl.collect.traces.rows import run_id
from rl.models import ApiKey, Trace
from rl.serving.gateway import pending
from rl.web.api.auth import rater_for, visible_to
from rl.web.api.known import agents
from rl.web.api.serializers.feedback import FEEDBACK_IN, FeedbackOut

SOURCE = "api"
OUT = FeedbackOut()
IN = {kind: serializer() for kind, serializer in FEEDBACK_IN.items()}
"""Made once: making a serializer takes longer than using it, and using it changes nothing in it."""


def store_feedback(key: ApiKey, data: Any) -> write.Rated:
    """Raises APIException or UsageError."""
    return store_checked(key, *check_kind(key, data))


def check_kind(key: ApiKey, data: Any) -> tuple[str, dict[str, Any]]:
    """The kind, and the checked data. Raises APIException."""
    kind = kind_of(data)
    if kind != "rating" and key.kind == ApiKey.Kind.PUBLISHABLE:
        raise PermissionDenied(f"a publishable key may only rate; a {kind} needs a secret key")
    return kind, IN[kind].run_validation(data)


def store_checked(key: ApiKey, kind: str, checked: dict[str, Any]) -> write.Rated:
    """``checked`` as the serializer of its kind gives it. Raises APIException or UsageError."""
    rated = _WRITERS[kind](key, checked, common(key, checked))
    agent = agents.get(rated.event.agent_id)
    if agent is None:
        raise NotFound("the agent was deleted just now, with everything that was said about it")
    rated.event.agent = agent
    return rated


def common(key: ApiKey, checked: dict[str, Any]) -> dict[str, Any]:
    """What all kinds say, as the writers of events take it. Raises ValidationError."""
    fields: dict[str, Any] = {name: checked[name] for name in ("tags", "notes", "rated_at") if name in checked}
    return {"rater": rater_for(key, checked["rater"]), "source": SOURCE, "api_key": key, **fields}


Writer = Callable[[ApiKey, dict[str, Any], dict[str, Any]], write.Rated]


def _rate(key: ApiKey, data: dict[str, Any], common: dict[str, Any]) -> write.Rated:
    """Without reading the trace before: whoever writes the rating looks whether it is there."""
    trace = UnreadTrace(data["trace"], key.agent_id)
    try:
        return write.rate(trace, scale=data["scale"], value=data["value"], **common)
    except write.UnknownTrace:
        return write.rate(find_trace(key, trace.pk), scale=data["scale"], value=data["value"], **common)


def _compare(key: ApiKey, data: dict[str, Any], common: dict[str, Any]) -> write.Rated:
    left, right = (find_trace(key, data[name], "prompt_key") for name in ("trace", "other_trace"))
    return write.compare(left, right, choice=data["choice"], **common)


def _correct(key: ApiKey, data: dict[str, Any], common: dict[str, Any]) -> write.Rated:
    return write.correct(find_trace(key, data["trace"], "response"), text=data["text"], **common)


def _outcome(key: ApiKey, data: dict[str, Any], common: dict[str, Any]) -> write.Rated:
    return write.outcome(find_trace(key, data["trace"]), metric=data["metric"], value=data["value"], **common)


_WRITERS: dict[str, Writer] = {"rating": _rate, "comparison": _compare, "correction": _correct, "outcome": _outcome}


def find_trace(key: ApiKey, trace_id: UUID, *columns: str) -> Trace:
    """Without its big columns, unless named; of an answer within a run, the run. Raises NotFound, too when it belongs to an
    agent that the key is not for."""
    rows = visible_to(key, Trace.objects.select_related("agent").only("agent__name", *columns))
    trace = rows.filter(pk=trace_id).first()
    if trace is None:
        pending.deliver_named([str(trace_id)])  # of the gateway, a moment ago
        trace = rows.filter(pk=run_id(trace_id)).first()
    if trace is not None:
        return trace
    raise NotFound(f"there is no trace {trace_id}, or this key is not for its agent")


def kind_of(data: Any) -> str:
    kind = data.get("kind", "rating") if isinstance(data, dict) else "rating"
    if not isinstance(kind, str) or kind not in FEEDBACK_IN:
        raise ValidationError({"kind": [f"must be one of {', '.join(FEEDBACK_IN)}"]})
    return kind
