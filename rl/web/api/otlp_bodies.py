"""Bodies of OTLP/HTTP calls: read with a limit and inflated, answered in the media type that they came in.

https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

from __future__ import annotations

import zlib
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from rest_framework import exceptions, status
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request

from rl.collect.otlp import JSON, PROTOBUF
from rl.web.api.problems import BadRequest, TooLarge

GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


class UnknownEncoding(exceptions.APIException):
    status_code = status.HTTP_415_UNSUPPORTED_MEDIA_TYPE
    default_code = "unsupported_encoding"
    default_detail = "Content-Encoding must be gzip, deflate or identity"


class AnyMediaType(BaseContentNegotiation):
    """The answer has the media type of the question, whatever the client says that it accepts."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


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
    body = _read(request)
    return body if encoding == "identity" else _inflate(body)


def _read(request: Request) -> bytes:
    body = request._request.read(settings.MAX_OTLP_REQUEST_BYTES + 1)
    if len(body) > settings.MAX_OTLP_REQUEST_BYTES:
        raise TooLarge
    return body


def _inflate(compressed: bytes) -> bytes:
    inflater = zlib.decompressobj(GZIP_OR_ZLIB)
    try:
        body = inflater.decompress(compressed, settings.MAX_OTLP_REQUEST_BYTES + 1)
    except zlib.error as error:
        raise BadRequest(f"the body is not compressed as it says: {error}") from None
    if len(body) > settings.MAX_OTLP_REQUEST_BYTES:
        raise TooLarge
    if not inflater.eof or inflater.unused_data:
        raise BadRequest("the compressed body is cut off, or something follows it")
    return body
