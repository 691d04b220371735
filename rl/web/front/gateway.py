"""What the front refuses on the gateway's behalf, in the shape of OpenAI's errors."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from rl.serving.gateway.app import CHAT_PATH
from rl.serving.gateway.refusals import Refusal
from rl.web.front.answers import Answer
from rl.web.front.refusals import Refused

_CODES: Final = {
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "request_too_large",
    HTTPStatus.REQUEST_TIMEOUT: "timeout",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_exceeded",
    HTTPStatus.SERVICE_UNAVAILABLE: "busy",
}


def is_for_gateway(path: str) -> bool:
    return path == CHAT_PATH or f"{path}/".startswith("/v1/models/")


def as_gateway_answer(refused: Refused) -> Answer:
    response = Refusal(refused.status, refused.detail, code=_CODES[refused.status], headers=refused.headers).response()
    return Answer(response.status_code, response.raw_headers, bytes(response.body))
