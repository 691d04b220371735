"""The events of a job as they come: server-sent, each with its id, and ``[DONE]`` at the end as in OpenAI's streams."""

from collections.abc import Mapping
from typing import Any, Final

from django.http import HttpResponse
from rest_framework.renderers import BaseRenderer

from rl.from_systems.openai_tuning.job_object import list_events
from rl.models import TuningJob
from rl.serving.dialects.dialect import DATA, event
from rl.web.front.following import Following

_DONE: Final = DATA + b"[DONE]\n\n"


class EventRenderer(BaseRenderer):
    """Lets a client ask for the media type; what goes wrong is told it as JSON."""

    media_type = "text/event-stream"
    format = "events"
    charset = None

    def render(self, data: Any, media_type: str | None = None, context: Mapping[str, Any] | None = None) -> bytes:
        return event(data)


class EventResponse(HttpResponse):
    """Without a front before it, the events that there are."""

    def __init__(self, job: TuningJob, last: str = "") -> None:
        """``last``: the id of the event behind which the client goes on."""
        self._name, self._last = job.pk, last
        first, goes_on = self._more()
        super().__init__(first, content_type=EventRenderer.media_type, headers={"Cache-Control": "no-store"})
        self.following = Following(self._more) if goes_on else None

    def _more(self) -> tuple[bytes, bool]:
        job = TuningJob.objects.select_related("agent", "run__version").get(pk=self._name)
        events = list_events(job)[::-1]
        behind = next((number for number, of in enumerate(events, 1) if of["id"] == self._last), 0)
        pieces = [f"id: {of['id']}\n".encode() + event(of) for of in events[behind:]]
        self._last = events[-1]["id"]
        return b"".join([*pieces, *([_DONE] if job.finished_at else [])]), job.finished_at is None
