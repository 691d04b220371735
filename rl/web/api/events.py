"""What goes on, told as it goes on: server-sent events."""

from collections.abc import Callable, Mapping
from typing import Any

from django.http import HttpResponse
from rest_framework.renderers import BaseRenderer

from rl.serving.dialects.dialect import event
from rl.web.front.following import Following


class EventRenderer(BaseRenderer):
    """Lets a client ask for the media type."""

    media_type = "text/event-stream"
    format = "events"
    charset = None

    def render(self, data: Any, media_type: str | None = None, context: Mapping[str, Any] | None = None) -> bytes:
        return event(data)


class EventResponse(HttpResponse):
    """Without a front before it, the events that there are."""

    def __init__(self, more: Callable[[], tuple[bytes, bool]]) -> None:
        """``more``: as in Following."""
        first, goes_on = more()
        super().__init__(first, content_type=EventRenderer.media_type, headers={"Cache-Control": "no-store"})
        self.following = Following(more) if goes_on else None
