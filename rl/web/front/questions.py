"""Questions of people who signed in: the site sees to who asks, and what; the gateway answers.

A view returns what ``hand_over`` gives. The front passes its question on to the gateway, in the process, as the caller that
the view names; no key is made, so none can be read from a page. Django's own server, which has no gateway, says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse

from rl.serving.gateway.app import BLIND_ID, CALLER, CHAT_PATH
from rl.serving.gateway.chat_request import SESSION_HEADER
from rl.serving.gateway.routing import KnownKey

PASSES_ON: Final = "ratchet.passes_questions_on"
"""In the WSGI environment of a server that has a gateway."""
_NO_GATEWAY: Final = "this server passes no questions on; start the site with: python3 manage.py serve"


@dataclass(frozen=True, slots=True)
class Question:
    caller: KnownKey
    body: bytes
    """A chat completion, as OpenAI's clients ask for it."""
    session_id: str
    """ASCII."""
    blind_id: UUID | None = None
    """The id of an answer whose version nobody may learn from it."""

    def scope(self, scope: Any) -> Any:
        """The gateway's request in the place of the site's; nothing that the browser sent is left in it."""
        headers = [(b"content-type", b"application/json"), (SESSION_HEADER.encode(), self.session_id.encode())]
        address = {"path": CHAT_PATH, "raw_path": CHAT_PATH.encode(), "query_string": b""}
        blind = {BLIND_ID: self.blind_id} if self.blind_id else {}
        return {**scope, **address, "headers": headers, CALLER: self.caller, **blind}


class _HandedOver(HttpResponse):
    def __init__(self, question: Question) -> None:
        super().__init__()
        self.question = question


def hand_over(request: HttpRequest, question: Question) -> HttpResponse:
    if not request.META.get(PASSES_ON):
        return JsonResponse({"error": _NO_GATEWAY}, status=HTTPStatus.SERVICE_UNAVAILABLE)
    return _HandedOver(question)
