"""
title: Thumbs to Ratchet
description: Sends each thumb to Ratchet as soon as it is given, with its chat.
required_open_webui_version: 0.12.0
"""

import json
import logging
import urllib.request
from asyncio import to_thread
from typing import Any

from open_webui.models.feedbacks import Feedbacks
from pydantic import BaseModel, Field

log = logging.getLogger(__name__)


class Event:
    class Valves(BaseModel):
        url: str = Field("http://127.0.0.1:8000", description="Where Ratchet is.")
        key: str = Field("", description="A secret key of Ratchet's that is bound to an agent: sk_…")

    def __init__(self) -> None:
        self.valves = self.Valves()

    async def event(self, event: dict[str, Any]) -> None:
        if event["event"] not in ("feedback.created", "feedback.updated"):
            return
        row = await Feedbacks.get_feedback_by_id(event["subject"]["id"])
        if row and row.type == "rating":
            await to_thread(self.send, row.model_dump())

    def send(self, row: dict[str, Any]) -> None:
        headers = {"Authorization": f"Bearer {self.valves.key}", "Content-Type": "application/json"}
        url = f"{self.valves.url.rstrip('/')}/api/openwebui/feedback/"
        request = urllib.request.Request(url, json.dumps(row).encode(), headers)  # noqa: S310  the administrator's own
        with urllib.request.urlopen(request, timeout=15) as answer:  # noqa: S310
            log.info("Ratchet has the feedback %s: %s", row["id"], answer.read(10_000).decode())
