"""Stores what one body says, of whatever kind. Ratings of answers that are not here yet wait, where they have a token."""

from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID, uuid4

from django.utils import timezone
from rest_framework import serializers, status
from rest_framework.exceptions import NotFound, PermissionDenied, Throttled, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from rl.base.errors import UsageError
from rl.collect.feedback import write
from rl.collect.feedback.events import UnreadTrace
from rl.collect.feedback.tokens import TokenSubject, read, sign
from rl.collect.feedback.waiting import Arrived, Early, Kept, NoRoom, drop, keep
from rl.collect.traces.rows import agents_named
from rl.models import ApiKey, Feedback, Trace
from rl.web.api.auth import INGEST, agents, rater_for, visible_to
from rl.web.api.base import ApiView, success
from rl.web.api.lookups import by_external_id, by_id, runs_with
from rl.web.api.problems import BAD_BODY, BadRequest, TokenRefused, operation
from rl.web.api.serializers.fields import StrictSerializer, TextField, raters_field
from rl.web.api.serializers.traces import FEEDBACK_IN, FeedbackOut


def check_tokens(key: ApiKey, data: Mapping[str, Any]) -> tuple[int, ...]:
    """``data`` of a feedback event, checked. How many may judge each of its answers by its tokens; none of keys that need no
    tokens. Raises TokenRefused."""
    if not key.needs_tokens:
        return ()
    names = (("trace", "token"), ("other_trace", "other_token"))
    return tuple(read_token(key, data[of], data.get(name, ""), name).raters for of, name in names if of in data)


def read_token(key: ApiKey, trace_id: UUID, token: str, name: str = "token") -> TokenSubject:
    """Raises TokenRefused where it does not let this key rate this answer."""
    if not token:
        raise TokenRefused(f"this key rates only with a {name} for the answer; POST /api/v1/traces/ gives it")
    try:
        subject = read(token)
    except UsageError as error:
        raise TokenRefused(f"{name}: {error}") from error
    if subject.trace_id != trace_id or key.agent_id not in (None, subject.agent_id):
        raise TokenRefused(f"the {name} is for another answer, or this key is not for its agent")
    return subject


class TokenIn(StrictSerializer):
    agent = TextField(max_length=64, help_text="Name of an agent that exists.")
    raters = raters_field()


class TokenOut(serializers.Serializer):
    """Names an answer that is still to come: send it with the token, and show the widget with both."""

    trace = serializers.UUIDField(help_text="The id that the answer will have.")
    token = serializers.CharField()


class TokenList(ApiView):
    scopes = {"POST": INGEST}
    serializer_class = TokenIn

    @operation(
        "reserve_trace",
        "Name an answer that is still to come",
        {201: TokenOut},
        *BAD_BODY,
        404,
        tags=["traces"],
        description="Stores nothing. Ratings with this token wait for the answer; the trace that is sent with it gets "
        "the id.",
    )
    def post(self, request: Request) -> Response:
        data = self.check_body(TokenIn)
        name = data["agent"]
        agent = agents_named({name}).get(name.lower())
        if agent is None or self.key.agent_id not in (None, agent.pk):
            raise NotFound(f"no agent is named {name!r}, or this key is not for it; agents are made in the admin")
        subject = TokenSubject(uuid4(), agent.pk, data.get("raters", 1))
        return Response({"trace": str(subject.trace_id), "token": sign(subject)}, status=status.HTTP_201_CREATED)


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


def check_kind(key: ApiKey, data: Any) -> tuple[str, dict[str, Any]]:
    """The kind, and the checked data. Raises APIException."""
    kind = kind_of(data)
    if kind == "outcome" and key.kind == ApiKey.Kind.PUBLISHABLE:
        raise PermissionDenied("a publishable key may only say what a person thinks; an outcome needs a secret key")
    return kind, IN[kind].run_validation(data)


def store_checked(key: ApiKey, kind: str, checked: dict[str, Any], address: str) -> Outcome:
    """``checked`` as the serializer of its kind gives it. ``address``: where it comes from
    (``client_address.address_digest``). Raises APIException or UsageError."""
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
    ids = dict(checked)
    of_agent = {"agent__name__iexact": checked["agent"]} if checked.get("agent") else {}
    for field in ("trace", "other_trace"):
        if isinstance(name := checked.get(field), str):
            traces = visible_to(key, Trace.objects.filter(**of_agent).only("pk").order_by())
            known = list(by_external_id(traces, [name])[:2]) or [run for _, run in runs_with(traces, [name])]
            if len(known) > 1:
                raise BadRequest(
                    f"several agents have an answer {name!r}: say which as 'agent', or send the id of the trace"
                )
            if not known:
                raise NotFound(f"there is no trace {name!r}, or this key is not for its agent")
            ids[field] = known[0].pk
        elif name and of_agent and Trace.objects.filter(pk=name).exclude(**of_agent).exists():
            raise NotFound(f"there is no trace {name} of the agent {checked['agent']!r}")
    return ids


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
                return _wait(key, data, common)
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
    if trace := by_id(rows, trace_id):
        return trace
    raise NotFound(f"there is no trace {trace_id}, or this key is not for its agent")


def kind_of(data: Any) -> str:
    kind = data.get("kind", "rating") if isinstance(data, dict) else "rating"
    if not isinstance(kind, str) or kind not in FEEDBACK_IN:
        raise ValidationError({"kind": [f"must be one of {', '.join(FEEDBACK_IN)}"]})
    return kind


class Waits(serializers.Serializer):
    """The rating counts from when its answer comes."""

    trace = serializers.UUIDField()
    waiting = serializers.BooleanField()


def _wait(key: ApiKey, data: dict[str, Any], common: dict[str, Any]) -> Kept:
    """``data`` of a rating, checked, and what its event would say. Raises TokenRefused, TokenSpent, Throttled (a server that
    is full asks to come again: the widget keeps the rating meanwhile), and Arrived where its answer has come meanwhile."""
    subject = read_token(key, data["trace"], data["token"])
    now = timezone.now()
    early = Early(
        entry_id=str(subject.trace_id),
        rater=common["rater"],
        scale=data["scale"],
        value=data["value"],
        rated_at=min(common.get("rated_at", now), now),
        tags=common.get("tags", ()),
        notes=common.get("notes", ""),
        by_id=True,
        address=common["address"],
        raters=next(iter(common["token_raters"]), None),
    )
    (outcome,) = keep([early], subject.agent_id, key)
    if isinstance(outcome, NoRoom):
        raise Throttled(detail=str(outcome)) from outcome
    if isinstance(outcome, UsageError):
        raise outcome
    return outcome


def forget(key: ApiKey, data: dict[str, Any], rater: str) -> bool:
    """Whether a rating waited that is withdrawn now. Raises TokenRefused."""
    subject = read_token(key, data["trace"], data["token"])
    return drop(str(subject.trace_id), subject.agent_id, rater)
