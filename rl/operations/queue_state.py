"""Whether the queue is at work, by the rows of its tasks: whatever the broker is, and whichever machine it runs on."""

from datetime import datetime, timedelta

from django.utils import timezone

MINUTES = 5
"""Without the task of each minute the queue does not run."""
START = "start the queue: systemctl start ratchet-queue, or manage.py qcluster"


def last_work() -> datetime | None:
    """When a task of each minute ended last."""
    from django_q.models import Success  # reads the queue's settings when imported

    tasks = Success.objects.filter(func="rl.tasks.supervise_runs").order_by("-stopped")
    return tasks.values_list("stopped", flat=True).first()


def is_silent(last: datetime | None) -> bool:
    return last is None or last < timezone.now() - timedelta(minutes=MINUTES)


def why_silent() -> str:
    """A sentence for people; empty while the queue works."""
    last = last_work()
    if last is None:
        return f"No queue has ever run here; every training would wait. {START.capitalize()}."
    if not is_silent(last):
        return ""
    return f"The queue has done nothing since {last:%Y-%m-%d %H:%M} UTC. {START.capitalize()}."
