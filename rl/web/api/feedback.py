"""Feedback events."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import PolymorphicProxySerializer
from rest_framework import status
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request
from rest_framework.response import Response

from rl.collect.feedback.write import current_rating, retract
from rl.models import ApiKey, Feedback
from rl.web.api.auth import INGEST, RATE, READ, ApiKeyAuthentication, rater_for
from rl.web.api.base import ApiView
from rl.web.api.early_ratings import Waits, forget
from rl.web.api.feedback_lines import FeedbackLines, Lines, LinesParser, store
from rl.web.api.feedback_writing import SOURCE, answer_to, find_trace, store_feedback, with_ids
from rl.web.api.filters import FeedbackFilter
from rl.web.api.known import find_key
from rl.web.api.openapi import BAD_BODY, operation
from rl.web.api.parsers import StrictJSONParser
from rl.web.api.serializers.feedback import FEEDBACK_IN, FeedbackOut, RetractById, Retracted, RetractOwn
from rl.web.api.tokens import check_tokens
from rl.web.client_address import address_digest

ANY_KIND = PolymorphicProxySerializer(
    component_name="FeedbackIn", serializers=FEEDBACK_IN, resource_type_field_name="kind"
)


class FeedbackList(ApiView):
    scopes = {"GET": READ, "POST": RATE}
    queryset = Feedback.objects.select_related("agent")
    filterset_class = FeedbackFilter
    takes_tokens = True
    serializer_class = FeedbackOut

    parser_classes = [StrictJSONParser, LinesParser]

    def get_authenticators(self) -> list[BaseAuthentication]:
        return [ApiKeyAuthentication(find_key)]

    @operation(
        "list_feedback", "List feedback, newest first", {200: FeedbackOut(many=True)}, 400, 404, tags=["feedback"]
    )
    def get(self, request: Request) -> Response:
        return self.list_rows(FeedbackOut)

    @operation(
        "send_feedback",
        "Rate, compare, correct, or report an outcome",
        {200: FeedbackOut, 201: FeedbackOut, 202: Waits, 207: FeedbackLines},
        *BAD_BODY,
        404,
        409,
        tags=["feedback"],
        request={"application/json": ANY_KIND, LinesParser.media_type: OpenApiTypes.STR},
        description="`kind` is rating unless given; publishable keys may send all but outcomes, and those that need "
        "tokens send a `token` with each. 202: the answer is not here yet, and the rating waits for it. 201: the rater "
        "had said nothing (current) before. 200: it supersedes the earlier rating, repeats it, or is older and changes "
        "nothing; the answer is the event that counts now. As NDJSON: one of these objects a line; answered with 207 and "
        "what became of each line.",
    )
    def post(self, request: Request) -> Response:
        if isinstance(request.data, Lines):
            results = store(self.key, request.data, address_digest(request))
            return Response({"results": results}, status=status.HTTP_207_MULTI_STATUS)
        document, code = answer_to(store_feedback(self.key, request.data, address_digest(request)))
        return Response(document, status=code)


class FeedbackDetail(ApiView):
    scopes = {"GET": READ}
    queryset = Feedback.objects.select_related("agent")
    serializer_class = FeedbackOut

    @operation("get_feedback", "One event", {200: FeedbackOut}, 404, tags=["feedback"])
    def get(self, request: Request, **kwargs: Any) -> Response:
        return Response(FeedbackOut(self.get_object()).data)


class FeedbackRetract(ApiView):
    scopes = {"POST": INGEST}
    queryset = Feedback.objects.select_related("trace")
    serializer_class = RetractById

    @operation("retract_feedback", "Withdraw an event", {200: Retracted}, *BAD_BODY, 404, tags=["feedback"])
    def post(self, request: Request, **kwargs: Any) -> Response:
        event = self.get_object()
        name = self.check_body(RetractById).get("rater")
        rater = rater_for(self.key, name) if name else event.rater
        return _retract(event, rater, self.key)


class OwnRatingRetract(ApiView):
    scopes = {"POST": RATE}
    takes_tokens = True
    queryset = Feedback.objects.all()
    serializer_class = RetractOwn

    @operation(
        "retract_rating", "Withdraw a rater's rating of a trace", {200: Retracted}, *BAD_BODY, 404, tags=["feedback"]
    )
    def post(self, request: Request) -> Response:
        data = with_ids(self.key, self.check_body(RetractOwn))
        check_tokens(self.key, data)
        rater = rater_for(self.key, data["rater"])
        if data.get("token") and forget(self.key, data, rater):
            return Response({"retracted": True})
        trace = find_trace(self.key, data["trace"])
        return _retract(current_rating(trace, rater), rater, self.key)


def _retract(event: Feedback | None, rater: str, key: ApiKey) -> Response:
    done = event is not None and retract(event, rater=rater, source=SOURCE, api_key=key)
    return Response({"retracted": done})
