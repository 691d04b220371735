"""Whether a page may rate at all, in words that its widget can read.

A browser hides the refusal of an origin that no key names: to the widget it looks like a network that is down. This one
answer is readable from every page, and says of the asking page alone what its browser would find out anyway.
"""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from rl.web.api.cors import allow_origin_of_publishable_key
from rl.web.api.throttles import RequestsPerMinute


class OriginCheck(APIView):
    schema = None
    authentication_classes = ()
    permission_classes = ()
    throttle_classes = [RequestsPerMinute]

    def get(self, request: Request, **kwargs: Any) -> Response:
        may_rate = allow_origin_of_publishable_key(None, request._request)
        headers = {"Access-Control-Allow-Origin": "*", "Cache-Control": "no-store"}
        return Response({"may_rate": may_rate}, headers=headers)
