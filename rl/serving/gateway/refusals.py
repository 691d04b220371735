"""What the gateway answers instead of an answer, in the shape that OpenAI's clients understand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from django.conf import settings
from starlette.responses import Response

from rl.base.disk_space import tells_of_full_disk
from rl.faults import DISK_FULL
from rl.serving.dialects.chat import CHAT
from rl.serving.dialects.dialect import ApiDialect, ChatForm, UntranslatableRequest

_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
STARTING_SECONDS: Final = 5
"""What Retry-After says while a server starts."""
NAMELESS: Final = "this answer did not come; the log of the site says why"


class Refusal(Exception):
    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        kind: str = "",
        headers: Mapping[str, str] | None = None,
        blames_version: bool = False,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param
        self.kind = kind or _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
        self.headers = dict(headers or {})
        self.blames_version = blames_version
        """Counts as a failure of the version that should have answered."""

    @property
    def error(self) -> dict[str, Any]:
        return {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}

    def where_sent(self, form: ChatForm) -> Refusal:
        """The same by the names that the client's own request has."""
        if self.param:
            own = form.place_of(self.param)
            self.message, self.param = self.message.replace(self.param, own), own
        return self

    def without_names(self) -> Refusal:
        """What is told of it where nobody may know which version was asked."""
        return Refusal(self.status, NAMELESS, code="no_answer", kind="upstream_error", headers=self.headers)

    def response(self, headers: Mapping[str, str] | None = None, dialect: ApiDialect = CHAT) -> Response:
        body = dialect.error(self.status, self.error)
        return json_response(body, self.status, {**self.headers, **(headers or {})})


def untranslatable(error: UntranslatableRequest) -> Refusal:
    return Refusal(400, error.message, param=error.param, code=error.code)


def unsupported_content(message: str, part: str) -> Refusal:
    """Names the picture or sound that the model cannot take; its version is not to blame."""
    return Refusal(400, message, code="unsupported_content", param=part)


def broken_upstream(version: str, what: str, status: int = 502, headers: Mapping[str, str] | None = None) -> Refusal:
    message, code = f"the server of {version} {what}", "upstream_timeout" if status == 504 else "upstream_failed"
    return Refusal(status, message, code=code, kind="upstream_error", headers=headers, blames_version=True)


def too_slow(version: str) -> Refusal:
    return broken_upstream(version, f"did not finish within {settings.GATEWAY_TIMEOUT} seconds", 504)


def not_ready(version: str) -> Refusal:
    """Its process was started anew, or is about to be."""
    message = f"the server of {version} is being started; ask again in a moment"
    wait = {"Retry-After": str(STARTING_SECONDS)}
    return Refusal(503, message, code="model_not_ready", kind="upstream_error", headers=wait, blames_version=True)


def out_of_room() -> Refusal:
    """What cannot be kept is not answered: its id would lead nowhere."""
    wait = {"Retry-After": str(DISK_FULL.retry_seconds)}
    return Refusal(DISK_FULL.status, DISK_FULL.detail, code=DISK_FULL.code, headers=wait)


def unkept(error: OSError) -> Refusal:
    """An answer whose file could not be written."""
    if tells_of_full_disk(error):
        return out_of_room()
    wait = {"Retry-After": str(DISK_FULL.retry_seconds)}
    return Refusal(503, f"the answer cannot be kept: {error.strerror}", code="storage_unavailable", headers=wait)


def unread() -> Refusal:
    """An earlier answer could not be looked up."""
    wait = {"Retry-After": str(DISK_FULL.retry_seconds)}
    return Refusal(503, "stored answers cannot be read at the moment", code="storage_unavailable", headers=wait)


def json_response(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    body = json.dumps(document, separators=(",", ":")).encode()
    all_headers = {"Cache-Control": "no-store", **(headers or {})}
    return Response(body, status, all_headers, media_type="application/json")
