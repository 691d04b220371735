"""Pages of other sites whose scripts may ask the gateway: what browsers ask for (CORS, as WHATWG's Fetch has it)."""

from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rl.serving.gateway.table import Table

_MOST_LETTERS: Final = 2000
_KEPT_SECONDS: Final = 600


class PageOrigins:
    """Middleware that answers the questions which browsers ask before a request, and lets the scripts of pages read what
    comes. Whether the key of a request works from its page is seen to when that comes: a question has no key. There are no
    cookies, so that scripts can do nothing in a visitor's name."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        origin = headers.get("origin", "")
        asks_first = scope.get("method") == "OPTIONS" and "access-control-request-method" in headers
        if not origin or not await _is_known(scope["app"].state.gateway.table, origin, made_just_now=asks_first):
            await self._app(scope, receive, send)
            return
        if asks_first:
            await _permit(headers, origin)(scope, receive, send)
            return

        async def pass_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered = MutableHeaders(scope=message)
                answered["Access-Control-Allow-Origin"] = origin
                answered["Access-Control-Expose-Headers"] = "*"
                answered.add_vary_header("Origin")
            await send(message)

        await self._app(scope, receive, pass_on)


async def _is_known(table: Table, origin: str, *, made_just_now: bool) -> bool:
    return origin in table.snapshot.origins or (made_just_now and origin in (await table.fresh()).origins)


def _permit(headers: Headers, origin: str) -> Response:
    """Whatever headers the page's library sends."""
    permitted: dict[str, Any] = {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Methods": "GET, POST",
        "Access-Control-Allow-Headers": headers.get("access-control-request-headers", "")[:_MOST_LETTERS],
        "Access-Control-Max-Age": str(_KEPT_SECONDS),
        "Vary": "Origin, Access-Control-Request-Headers",
    }
    return Response(status_code=204, headers=permitted)
