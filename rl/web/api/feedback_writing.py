"""Stores what one body says, of whatever kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from rest_framework import status
from rest_framework.exceptions import NotFound, PermissionDenied, ValidationError

from rl.collect.feedback import write
from rl.collect.feedback.events import UnreadTrace
from rl.collect.feedback.waiting import Arrived, Kept
from rl.collect.traces.rows import run_id
from rl.models import ApiKey, Feedback, Trace
from rl.serving.gateway import pending
from rl.web.api.auth import rater_for, visible_to
from rl.web.api.base import success
from rl.web.api.early_ratings import wait
from rl.web.api.known import agents
from rl.web.api.lookups import by_external_id
from rl.web.api.problems import BadRequest
from rl.web.api.serializers.feedback import FEEDBACK_IN, FeedbackOut
from rl.web.api.tokens import check_tokens

SOURCE = "api"
OUT = FeedbackOut()
IN = {kind: serializer() for kind, serializer in FEEDBACK_IN.items()}
"""Made once: making a serializer takes longer than using it, and using it changes nothing in it."""


Outcome = write.Rated | Kept
WAITS: Final = status.HTTP_202_ACCEPTED


def answer_to(outcome: Outcome) -> tuple[dict[str, Any], int]:
    """The document, and its status."""
    if isinstance(outcome, Kept):
        return {"trace": outcome.row.entry_id, "waiting": True}, WAITS
    return OUT.to_representation(outcome.event), success(outcome.created)


def store_feedback(key: ApiKey, data: Any, address: str) -> Outcome:
    """``address``: where it comes from (``client_address.address_digest``). Raises APIException or UsageError."""
    return store_checked(key, *check_kind(key, data), address)


def check_kind(key: ApiKey, data: Any) -> tuple[str, dict[str, Any]]:
    """The kind, and the checked data. Raises APIException."""
    kind = kind_of(data)
    if kind == "outcome" and key.kind == ApiKey.Kind.PUBLISHABLE:
        raise PermissionDenied("a publishable key may only say what a person thinks; an outcome needs a secret key")
    return kind, IN[kind].run_validation(data)


def store_checked(key: ApiKey, kind: str, checked: dict[str, Any], address: str) -> Outcome:
    """``checked`` as the serializer of its kind gives it. Raises APIException or UsageError."""
    checked = with_ids(key, checked)
    rated = _WRITERS[kind](key, checked, common(key, checked, address))
    if isinstance(rated, Kept):
        return rated
    agent = agents.get(rated.event.agent_id)
    if agent is None:
        raise NotFound("the agent was deleted just now, with everything that was said about it")
    rated.event.agent = agent
    return rated


def with_ids(key: ApiKey, checked: dict[str, Any]) -> dict[str, Any]:
    """The data with the ids of traces that it names by ids of other systems. Raises NotFound, and BadRequest where traces of
    several agents have one."""
    names = {field: name for field in ("trace", "other_trace") if isinstance(name := checked.get(field), str)}
    return {**checked, **{field: _id_of(key, name) for field, name in names.items()}}


def _id_of(key: ApiKey, name: str) -> UUID:
    ids = list(by_external_id(visible_to(key, Trace.objects.order_by()), [name]).values_list("pk", flat=True)[:2])
    if len(ids) > 1:
        raise BadRequest(f"several agents have an answer {name!r}: send the id of the trace, or a key of one agent")
    if not ids:
        raise NotFound(f"there is no trace {name!r}, or this key is not for its agent")
    return ids[0]


def common(key: ApiKey, checked: dict[str, Any], address: str) -> dict[str, Any]:
    """What all kinds say, as the writers of events take it. Raises ValidationError and TokenRefused."""
    fields: dict[str, Any] = {name: checked[name] for name in ("tags", "notes", "rated_at") if name in checked}
    return {
        "rater": rater_for(key, checked["rater"]),
        "address": address if key.kind == ApiKey.Kind.PUBLISHABLE else "",
        "source": SOURCE,
        "api_key": key,
        "token_raters": check_tokens(key, checked),
        **fields,
    }


Writer = Callable[[ApiKey, dict[str, Any], dict[str, Any]], Outcome]


def _rate(key: ApiKey, data: dict[str, Any], common: dict[str, Any]) -> Outcome:
    """Without reading the trace before: whoever writes the rating looks whether it is there. With a token it may wait."""
    trace = UnreadTrace(data["trace"], key.agent_id)
    try:
        return write.rate(trace, scale=data["scale"], value=data["value"], **common)
    except write.UnknownTrace:
        try:
            here = find_trace(key, trace.pk)
        except NotFound:
            if not data.get("token"):
                raise
            try:
                return wait(key, data, common)
            except Arrived:
                here = find_trace(key, trace.pk)
        return write.rate(here, scale=data["scale"], value=data["value"], **common)


def _compare(key: ApiKey, data: dict[str, Any], common: dict[str, Any]) -> write.Rated:
    left, right = (find_trace(key, data[name], "prompt_key") for name in ("trace", "other_trace"))
    return _supersede_own(key, write.compare(left, right, choice=data["choice"], **common))


def _correct(key: ApiKey, data: dict[str, Any], common: dict[str, Any]) -> write.Rated:
    trace = find_trace(key, data["trace"], "response")
    return _supersede_own(key, write.correct(trace, text=data["text"], **common))


def _outcome(key: ApiKey, data: dict[str, Any], common: dict[str, Any]) -> write.Rated:
    return write.outcome(find_trace(key, data["trace"]), metric=data["metric"], value=data["value"], **common)


def _supersede_own(key: ApiKey, rated: write.Rated) -> write.Rated:
    """One device may not outvote others by repeating itself: its newest choice between two answers counts, and its newest
    correction of an answer."""
    event = rated.event
    if key.kind == ApiKey.Kind.PUBLISHABLE and rated.changed:
        pair = {event.trace_id, event.other_trace_id}
        earlier = Feedback.objects.filter(trace__in=pair - {None}, kind=event.kind, rater=event.rater, is_current=True)
        for other in earlier.exclude(pk=event.pk).select_related("trace"):
            if {other.trace_id, other.other_trace_id} == pair:
                write.retract(other, rater=event.rater, source=SOURCE, api_key=key)
    return rated


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
