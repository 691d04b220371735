"""Browsers, as Command Center's pages use them."""

import json
from typing import Any

from django.http import HttpResponse
from django.test import Client

PAGE = "http://localhost:3100"
DEVICE = "device-1767225600000-k3x9a2b"
RATED_AT = "2026-02-01T12:46:57.957000Z"


class Page:
    """Calls from one origin, with a key or none."""

    def __init__(self, origin: str = PAGE, **headers: str) -> None:
        self.client = Client(headers={"origin": origin, **headers} if origin else headers)

    def get(self, path: str = "/api/ratings/") -> HttpResponse:
        return self.client.get(path)

    def post(self, path: str, body: Any) -> HttpResponse:
        return self.client.post(path, json.dumps(body), content_type="application/json")

    def rate(self, entry_id: str = "e00001", rating: str = "up", **more: Any) -> HttpResponse:
        body = {"entry_id": entry_id, "rating": rating, "tags": ["good-data"], "notes": "", "rated_at": RATED_AT}
        return self.post("/api/ratings/", {**body, "device_id": DEVICE, **more})
