"""The events of a job as they come, each with its id, and ``[DONE]`` at the end as in OpenAI's streams."""

from typing import Final

from rl.from_systems.openai_tuning.job_object import list_events
from rl.models import TuningJob
from rl.serving.dialects.dialect import DATA, event

_DONE: Final = DATA + b"[DONE]\n\n"


class JobFollower:
    def __init__(self, job: TuningJob, last: str = "") -> None:
        """``last``: the id of the event behind which the client goes on."""
        self._name, self._last = job.pk, last

    def __call__(self) -> tuple[bytes, bool]:
        """The events since the last call, and whether others come."""
        job = TuningJob.objects.select_related("agent", "run__version").filter(pk=self._name).first()
        if job is None:  # its agent was deleted
            return _DONE, False
        events = list_events(job)[::-1]
        behind = next((number for number, of in enumerate(events, 1) if of["id"] == self._last), 0)
        pieces = [f"id: {of['id']}\n".encode() + event(of) for of in events[behind:]]
        self._last = events[-1]["id"]
        return b"".join([*pieces, *([_DONE] if job.finished_at else [])]), job.finished_at is None
