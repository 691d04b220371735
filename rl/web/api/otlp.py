"""``POST /v1/traces``: where OpenTelemetry's exporters deliver spans (https://opentelemetry.io/docs/specs/otlp/#otlphttp).

Bodies are read with a limit and inflated. The answers are those of OTLP/HTTP, in the media type of the question: an
ExportTraceServiceResponse, whose partial success says what was refused, or a Status. Exporters send again after 429 and 503
only; after anything else the spans are gone.
"""

import logging
import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import IntegrityError, OperationalError
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from rest_framework import exceptions, status
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request
from rest_framework.views import APIView

from rl.base.errors import RunConflict
from rl.collect.otlp import JSON, NO_CONTENT, PROTOBUF, Mapped, decode, map_spans, slug
from rl.collect.traces import spans
from rl.collect.traces.doubles import has_no_id
from rl.collect.traces.imported import Rejected
from rl.faults import fault_of
from rl.models import Agent, ApiKey
from rl.serving.gateway import pending
from rl.web.api.auth import INGEST, key_of
from rl.web.api.base import RequestsPerMinute
from rl.web.api.problems import BadRequest, TooLarge, problem_response

AGENT_HEADER = "X-Ratchet-Agent"
RETRY_SECONDS = 5
MOST_AGENTS = 200
LONGEST_MESSAGE = 2000
_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 405: 12, 409: 10, 429: 8, 503: 14}
"""HTTP status to gRPC code; others are INVALID_ARGUMENT or, from 500 on, INTERNAL."""
log = logging.getLogger(__name__)


class Unavailable(exceptions.APIException):
    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    default_code = "unavailable"
    default_detail = "the spans could not be stored now; send them again"
    wait = RETRY_SECONDS


GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


class UnknownEncoding(exceptions.APIException):
    status_code = status.HTTP_415_UNSUPPORTED_MEDIA_TYPE
    default_code = "unsupported_encoding"
    default_detail = "Content-Encoding must be gzip, deflate or identity"


class AnyMediaType(BaseContentNegotiation):
    """The answer has the media type of the question, whatever the client says that it accepts."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


@extend_schema(exclude=True)  # OpenTelemetry describes it
class OtlpTraces(APIView):
    scopes = {"POST": INGEST}
    throttle_classes = [RequestsPerMinute]
    content_negotiation_class = AnyMediaType

    def get_exception_handler(self) -> Callable[..., Any]:
        return _status_response

    def post(self, request: Request) -> HttpResponse:
        media_type, key = media_type_of(request), key_of(request)
        if media_type not in (PROTOBUF, JSON):
            raise exceptions.UnsupportedMediaType(media_type or "none", f"send {PROTOBUF} or {JSON}")
        mapped = map_spans(decode(body_of(request), media_type), agent=self.agent_name(request, key))
        refused = [*mapped.refused, *_store(mapped, key)]
        # the partial success is empty where all is well; a warning counts nothing as rejected
        without_content = mapped.without_content
        reasons = Counter(rejected.reason for rejected in refused)
        messages = [f"{count} refused: {reason}" for reason, count in reasons.most_common(20)]
        if without_content:
            messages.append(f"{without_content} model calls {NO_CONTENT}")
        answer = ExportTraceServiceResponse()
        if messages:
            answer.partial_success.rejected_spans = sum(reasons.values())
            answer.partial_success.error_message = "; ".join(messages)[:LONGEST_MESSAGE]
            log.warning("spans: %s", answer.partial_success.error_message)
        return reply(request, answer)

    def agent_name(self, request: Request, key: ApiKey) -> str:
        """The agent that the key or the header names; empty: each span says itself whose it is."""
        if key.agent is not None:
            return key.agent.name
        header = request.headers.get(AGENT_HEADER, "")
        if header and not slug(header):
            raise exceptions.ParseError(f"{AGENT_HEADER} {header[:100]!r} is not a name that an agent can have")
        return slug(header)


def _store(mapped: Mapped, key: ApiKey) -> list[Rejected]:
    refused: list[Rejected] = []
    names = sorted({answer.agent for answer in mapped.answers} | {span.agent for span in mapped.loose})
    if len(names) > MOST_AGENTS:
        raise BadRequest(f"the spans are of {len(names)} agents; send those of at most {MOST_AGENTS} at a time")
    if any(map(has_no_id, mapped.answers)):  # the gateway knows them better
        pending.deliver_all()
    pending.deliver_named(answer.record.external_id for answer in mapped.answers)
    for name in names:
        # Created if there is none: an exporter cannot wait until a person does.
        agent = key.agent or Agent.objects.get_or_create(name__iexact=name, defaults={"name": name})[0]
        refused += spans.store(
            agent,
            [answer for answer in mapped.answers if answer.agent == name],
            [span for span in mapped.loose if span.agent == name],
        )
    return refused


def _status_response(error: Exception, context: Any) -> HttpResponse | None:
    if fault_of(error) or isinstance(error, (OperationalError, IntegrityError, RunConflict)):
        log.error("spans were not stored: %s", error)
        error = Unavailable()
    refusal = problem_response(error, context)
    if refusal is None:
        return None
    code = _CODES.get(refusal.status_code, 3 if refusal.status_code < 500 else 13)
    headers = {name: refusal[name] for name in ("WWW-Authenticate", "Retry-After") if name in refusal}
    message = Status(code=code, message=str(refusal.data["detail"]))
    return reply(context["request"], message, refusal.status_code, headers)


def reply(request: Request, message: Message, status_code: int = 200, headers: Any = None) -> HttpResponse:
    """Not through REST framework: it takes the media type from an empty body, and a protobuf message may well be empty."""
    if media_type_of(request) == PROTOBUF:
        return HttpResponse(message.SerializeToString(), PROTOBUF, status_code, headers=headers)
    return HttpResponse(MessageToJson(message, indent=None), JSON, status_code, headers=headers)


def media_type_of(request: Request) -> str:
    return (request.content_type or "").partition(";")[0].strip().lower()


def body_of(request: Request) -> bytes:
    """The request's body, decompressed. Raises TooLarge where it or what was sent is over MAX_OTLP_REQUEST_BYTES."""
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "deflate"):
        raise UnknownEncoding
    most = settings.MAX_OTLP_REQUEST_BYTES
    sent = request._request.read(most + 1)
    if len(sent) > most:
        raise TooLarge
    if encoding == "identity":
        return sent
    inflater = zlib.decompressobj(GZIP_OR_ZLIB)
    try:
        body = inflater.decompress(sent, most + 1)
    except zlib.error as error:
        raise BadRequest(f"the body is not compressed as it says: {error}") from None
    if len(body) > most:
        raise TooLarge
    if not inflater.eof or inflater.unused_data:
        raise BadRequest("the compressed body is cut off, or something follows it")
    return body
