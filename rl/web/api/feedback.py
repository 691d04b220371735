"""Feedback events: one at a time, by the thousand as NDJSON, taken back, and the answers that a page may offer to choose
among."""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import PolymorphicProxySerializer
from rest_framework import serializers, status
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from rl.base.errors import UsageError
from rl.collect.feedback.answer_forms import find_form
from rl.collect.feedback.events import UnreadTrace, rating
from rl.collect.feedback.waiting import Kept
from rl.collect.feedback.write import CHUNK, Rated, UnknownTrace, current_rating, record_each, retract
from rl.models import Agent, ApiKey, Feedback
from rl.web.api import feedback_writing as writing
from rl.web.api.auth import INGEST, RATE, READ, ApiKeyAuthentication, find_key, rater_for
from rl.web.api.base import ApiView, success
from rl.web.api.pagination import FeedbackFilter
from rl.web.api.parsers import StrictJSONParser, parse_json
from rl.web.api.problems import BAD_BODY, BAD_CHANGE, TooLarge, operation, problem_response
from rl.web.api.serializers.fields import ObjectField, StrictSerializer
from rl.web.api.serializers.traces import FEEDBACK_IN, FeedbackOut, RetractById, Retracted, RetractOwn, token_field
from rl.web.client_address import address_digest

MOST: Final = 5000
"""Lines of a request: of ratings about a second of work."""
SECONDS: Final = 10.0
"""What other lines may take together; those that are left are not stored."""
feedback_call = partial(operation, tags=["feedback"])


class Lines(list[tuple[int, bytes]]):
    """The lines as they were sent, numbered from 1; empty ones are left out."""


class LinesParser(BaseParser):
    """Lines as they are: a bad one must not keep the others out. Ends of lines are LF or CR LF."""

    media_type = "application/x-ndjson"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        """Gives Lines. Raises ParseError and TooLarge."""
        lines = [(number, line) for number, line in enumerate(stream.read().split(b"\n"), 1) if line.strip()]
        if not lines:
            raise ParseError("there is not a single line with an object")
        if len(lines) > MOST:
            raise TooLarge(f"at most {MOST} lines at a time, not {len(lines)}; send them in parts")
        return Lines(lines)


class FeedbackLine(serializers.Serializer):
    """What became of one line."""

    line = serializers.IntegerField(help_text="Its number in the body, from 1.")
    status = serializers.IntegerField(
        help_text="201 new, 200 superseded or repeated, 202 waits, else the status of the problem."
    )
    id = serializers.IntegerField(required=False, help_text="The event that counts now.")
    problem = ObjectField(required=False)


class FeedbackLines(serializers.Serializer):
    results = FeedbackLine(many=True)


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

    @feedback_call("list_feedback", "List feedback, newest first", {200: FeedbackOut(many=True)}, 400, 404)
    def get(self, request: Request) -> Response:
        return self.list_rows(FeedbackOut)

    @feedback_call(
        "send_feedback",
        "Rate, compare, correct, or report an outcome",
        {200: FeedbackOut, 201: FeedbackOut, 202: writing.Waits, 207: FeedbackLines},
        *BAD_CHANGE,
        request={"application/json": ANY_KIND, LinesParser.media_type: OpenApiTypes.STR},
        description="`kind` is rating unless given; publishable keys may send all but outcomes, and those that need "
        "tokens send a `token` with each. 202: the answer is not here yet, and the rating waits for it. 201: the rater "
        "had said nothing (current) before. 200: it supersedes the earlier rating, repeats it, or is older and changes "
        "nothing; the answer is the event that counts now. As NDJSON: one of these objects a line; answered with 207 and "
        "what became of each line.",
    )
    def post(self, request: Request) -> Response:
        address = address_digest(request)
        if isinstance(request.data, Lines):
            results = store(self.key, request.data, address)
            return Response({"results": results}, status=status.HTTP_207_MULTI_STATUS)
        document, code = writing.answer_to(
            writing.store_checked(self.key, *writing.check_kind(self.key, request.data), address)
        )
        return Response(document, status=code)


class FeedbackDetail(ApiView):
    scopes = {"GET": READ}
    queryset = Feedback.objects.select_related("agent")
    serializer_class = FeedbackOut

    @feedback_call("get_feedback", "One event", {200: FeedbackOut}, 404)
    def get(self, request: Request, **kwargs: Any) -> Response:
        return Response(FeedbackOut(self.get_object()).data)


class FeedbackRetract(ApiView):
    scopes = {"POST": INGEST}
    queryset = Feedback.objects.select_related("trace")
    serializer_class = RetractById

    @feedback_call("retract_feedback", "Withdraw an event", {200: Retracted}, *BAD_BODY, 404)
    def post(self, request: Request, **kwargs: Any) -> Response:
        event = self.get_object()
        name = self.check_body(RetractById).get("rater")
        rater = rater_for(self.key, name) if name else event.rater
        return _retract(event, rater, self.key)


class OwnRatingRetract(ApiView):
    scopes = {"POST": RATE}
    takes_tokens = True
    serializer_class = RetractOwn

    @feedback_call("retract_rating", "Withdraw a rater's rating of a trace", {200: Retracted}, *BAD_BODY, 404)
    def post(self, request: Request) -> Response:
        data = writing.with_ids(self.key, self.check_body(RetractOwn))
        writing.check_tokens(self.key, data)
        rater = rater_for(self.key, data["rater"])
        if data.get("token") and writing.forget(self.key, data, rater):
            return Response({"retracted": True})
        trace = writing.find_trace(self.key, data["trace"])
        return _retract(current_rating(trace, rater), rater, self.key)


def _retract(event: Feedback | None, rater: str, key: ApiKey) -> Response:
    done = event is not None and retract(event, rater=rater, source=writing.SOURCE, api_key=key)
    return Response({"retracted": done})


class ChoicesOf(StrictSerializer):
    trace = serializers.UUIDField(help_text="The answer that is shown.")
    token = token_field("For the trace.")


class Choices(serializers.Serializer):
    values = serializers.ListField(child=serializers.CharField(), help_text="Empty: the answers are of no closed set.")


class ChoiceList(ApiView):
    scopes = {"GET": RATE}
    takes_tokens = True
    serializer_class = Choices

    @feedback_call(
        "list_choices", "The answers that an answer could have been", {200: Choices}, 400, 404, parameters=[ChoicesOf]
    )
    def get(self, request: Request) -> Response:
        asked = ChoicesOf(data=request.query_params.dict())
        asked.is_valid(raise_exception=True)
        writing.check_tokens(self.key, asked.validated_data)
        trace = writing.find_trace(self.key, asked.validated_data["trace"], "prompt")
        agent = Agent.objects.get(pk=trace.agent_id)
        form = find_form(agent)
        suits = form is not None and form.suits(trace.prompt, agent.system_prompt, "")
        return Response({"values": list(form.values) if form and suits else []})


class Late(APIException):
    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    default_code = "unavailable"
    default_detail = (
        f"this line was not looked at: those before it took {SECONDS:g} seconds; send it again, with fewer lines"
    )


class _Sender(NamedTuple):
    key: ApiKey
    address: str
    deadline: float
    """On the monotonic clock."""

    def store(self, kind: str, checked: dict[str, Any]) -> writing.Outcome | Exception:
        if time.monotonic() > self.deadline:
            return Late()
        try:
            return writing.store_checked(self.key, kind, checked, self.address)
        except (APIException, UsageError) as error:
            return error


def store(key: ApiKey, lines: Lines, address: str) -> list[dict[str, Any]]:
    """In the order of the lines. Stores in short transactions; a line that is refused keeps no other out. ``address``: where
    they come from (``client_address.address_digest``)."""
    sender = _Sender(key, address, time.monotonic() + SECONDS)
    parts = (lines[start : start + CHUNK] for start in range(0, len(lines), CHUNK))
    return [result for part in parts for result in _store_part(sender, part)]


def _store_part(sender: _Sender, part: Sequence[tuple[int, bytes]]) -> list[dict[str, Any]]:
    """Ratings together; one after the other the other kinds, and ratings whose answer is not stored: the gateway may have
    given it a moment ago."""
    if time.monotonic() > sender.deadline:
        return [_result(number, Late()) for number, _ in part]
    outcomes: dict[int, writing.Outcome | Exception] = {}
    ratings: dict[int, tuple[dict[str, Any], Feedback]] = {}
    for number, line in part:
        try:
            kind, checked = writing.check_kind(sender.key, parse_json(line))
            if kind == "rating":
                checked = writing.with_ids(sender.key, checked)
                trace = UnreadTrace(checked["trace"], sender.key.agent_id)
                fields = writing.common(sender.key, checked, sender.address)
                event = rating(trace, scale=checked["scale"], value=checked["value"], **fields)
                ratings[number] = checked, event
            else:
                outcomes[number] = sender.store(kind, checked)
        except (APIException, UsageError) as error:
            outcomes[number] = error
    together = record_each([event for _, event in ratings.values()])
    for (number, (checked, _)), outcome in zip(ratings.items(), together, strict=True):
        outcomes[number] = sender.store("rating", checked) if isinstance(outcome, UnknownTrace) else outcome
    return [_result(number, outcomes[number]) for number in sorted(outcomes)]


def _result(number: int, outcome: writing.Outcome | Exception) -> dict[str, Any]:
    if isinstance(outcome, Kept):
        return {"line": number, "status": writing.WAITS}
    if isinstance(outcome, Rated):
        return {"line": number, "status": success(outcome.created), "id": outcome.event.pk}
    refused = problem_response(outcome, {})
    if refused is None:
        raise outcome
    return {"line": number, "status": refused.status_code, "problem": refused.data}
