from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from drf_spectacular.utils import PolymorphicProxySerializer
from rest_framework.exceptions import NotFound, PermissionDenied, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from rl.collect import feedback as events
from rl.models import ApiKey, Feedback, Trace
from rl.serving.gateway import pending
from rl.web.api.auth import HasSecretKey, MayRate, rater_for, visible_to
from rl.web.api.base import ApiView, success
from rl.web.api.filters import FeedbackFilter
from rl.web.api.openapi import BAD_BODY, operation
from rl.web.api.serializers.feedback import FEEDBACK_IN, FeedbackOut, RetractById, Retracted, RetractOwn

SOURCE = "api"
ANY_KIND = PolymorphicProxySerializer(
    component_name="FeedbackIn", serializers=FEEDBACK_IN, resource_type_field_name="kind"
)


class FeedbackList(ApiView):
    queryset = Feedback.objects.select_related("agent")
    filterset_class = FeedbackFilter
    serializer_class = FeedbackOut

    def get_permissions(self) -> list[Any]:
        return [MayRate() if self.request.method == "POST" else HasSecretKey()]

    @operation("list_feedback", "List feedback, newest first", {200: FeedbackOut(many=True)}, 400, tags=["feedback"])
    def get(self, request: Request) -> Response:
        return self.listed(FeedbackOut)

    @operation(
        "send_feedback",
        "Rate, compare, correct, or report an outcome",
        {200: FeedbackOut, 201: FeedbackOut},
        *BAD_BODY,
        404,
        409,
        tags=["feedback"],
        request=ANY_KIND,
        description="`kind` is rating unless given; publishable keys may send ratings only. 201: the rater had said "
        "nothing (current) before. 200: it supersedes the earlier rating, repeats it, or is older and changes nothing; "
        "the answer is the event that counts now.",
    )
    def post(self, request: Request) -> Response:
        kind = _kind(request.data)
        if kind != "rating" and self.key.kind == ApiKey.Kind.PUBLISHABLE:
            raise PermissionDenied(f"a publishable key may only rate; a {kind} needs a secret key")
        data = self.checked(FEEDBACK_IN[kind])
        rater = rater_for(self.key, data["rater"])
        trace = find_trace(self.key, data["trace"])
        given: dict[str, Any] = {name: data[name] for name in ("tags", "notes", "rated_at") if name in data}
        rated = _WRITERS[kind](self.key, trace, data, {"rater": rater, "source": SOURCE, "api_key": self.key, **given})
        rated.event.agent = trace.agent
        return Response(FeedbackOut(rated.event).data, status=success(rated.created))


class FeedbackDetail(ApiView):
    queryset = Feedback.objects.select_related("agent")
    serializer_class = FeedbackOut

    @operation("get_feedback", "One event", {200: FeedbackOut}, 404, tags=["feedback"])
    def get(self, request: Request, **kwargs: Any) -> Response:
        return Response(FeedbackOut(self.get_object()).data)


class FeedbackRetract(ApiView):
    queryset = Feedback.objects.select_related("trace")
    serializer_class = RetractById

    @operation(
        "retract_feedback",
        "Withdraw an event",
        {200: Retracted},
        *BAD_BODY,
        404,
        tags=["feedback"],
        request=RetractById,
    )
    def post(self, request: Request, **kwargs: Any) -> Response:
        event = self.get_object()
        name = self.checked(RetractById).get("rater")
        rater = rater_for(self.key, name) if name else event.rater
        return _retracted(event, rater, self.key)


class OwnRatingRetract(ApiView):
    queryset = Feedback.objects.all()
    permission_classes = [MayRate]
    serializer_class = RetractOwn

    @operation(
        "retract_rating",
        "Withdraw a rater's rating of a trace",
        {200: Retracted},
        *BAD_BODY,
        404,
        tags=["feedback"],
        request=RetractOwn,
    )
    def post(self, request: Request) -> Response:
        data = self.checked(RetractOwn)
        rater = rater_for(self.key, data["rater"])
        trace = find_trace(self.key, data["trace"])
        return _retracted(events.current_rating(trace, rater), rater, self.key)


def find_trace(key: ApiKey, trace_id: UUID, *columns: str) -> Trace:
    """Without its big columns, unless named. Raises NotFound, too when it belongs to an agent that the key is not for."""
    rows = visible_to(key, Trace.objects.select_related("agent").only("agent__name", *columns)).filter(pk=trace_id)
    trace = rows.first()
    if trace is None:
        pending.deliver_named([str(trace_id)])  # of the gateway, a moment ago
        trace = rows.first()
    if trace is not None:
        return trace
    raise NotFound(f"there is no trace {trace_id}, or this key is not for its agent")


def _kind(data: Any) -> str:
    kind = data.get("kind", "rating") if isinstance(data, dict) else "rating"
    if not isinstance(kind, str) or kind not in FEEDBACK_IN:
        raise ValidationError({"kind": [f"must be one of {', '.join(FEEDBACK_IN)}"]})
    return kind


def _retracted(event: Feedback | None, rater: str, key: ApiKey) -> Response:
    done = event is not None and events.retract(event, rater=rater, source=SOURCE, api_key=key)
    return Response({"retracted": done})


Writer = Callable[[ApiKey, Trace, dict[str, Any], dict[str, Any]], events.Rated]


def _rate(key: ApiKey, trace: Trace, data: dict[str, Any], common: dict[str, Any]) -> events.Rated:
    return events.rate(trace, scale=data["scale"], value=data["value"], **common)


def _compare(key: ApiKey, trace: Trace, data: dict[str, Any], common: dict[str, Any]) -> events.Rated:
    other = find_trace(key, data["other_trace"], "prompt_key")
    return events.compare(trace, other, choice=data["choice"], **common)


def _correct(key: ApiKey, trace: Trace, data: dict[str, Any], common: dict[str, Any]) -> events.Rated:
    return events.correct(trace, text=data["text"], **common)


def _outcome(key: ApiKey, trace: Trace, data: dict[str, Any], common: dict[str, Any]) -> events.Rated:
    return events.outcome(trace, metric=data["metric"], value=data["value"], **common)


_WRITERS: dict[str, Writer] = {"rating": _rate, "comparison": _compare, "correction": _correct, "outcome": _outcome}
