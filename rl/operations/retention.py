"""Deletes what is older than the operator wants to keep it. Without a number of days nothing is ever deleted, save for
ratings whose answer never came.

Rows go in small transactions, so that a rating never waits for long. Each look at a row and its deletion are one
transaction that holds the row: what is rated at this moment stays."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import Model, QuerySet
from django.utils import timezone

from rl import models
from rl.base import files
from rl.base.records import Report, silent
from rl.operations import audit

CHUNK = 200
"""Rows in one transaction."""
PAUSE_SECONDS = 0.02
"""Pause between two transactions: with SQLite whoever waits for the database gets it now."""
FOREVER = float("inf")


@dataclass(frozen=True)
class Kind:
    """``count``: how many there are that were last used before a time. ``delete``: yields numbers of what it deleted."""

    setting: str
    count: Callable[[datetime], int]
    delete: Callable[[datetime], Iterator[int]]

    @property
    def days(self) -> int:
        """0: for ever."""
        return int(getattr(settings, self.setting))

    def before(self) -> datetime:
        return timezone.now() - timedelta(days=self.days)


@dataclass(frozen=True)
class Expired:
    """``count``: what was deleted, or what a dry run would delete. None: it is kept for ever."""

    kind: str
    days: int
    count: int | None


def count_expired() -> list[Expired]:
    return [Expired(name, kind.days, kind.count(kind.before()) if kind.days else None) for name, kind in KINDS.items()]


def delete_expired(*, seconds: float = FOREVER, report: Report = silent) -> tuple[list[Expired], bool]:
    """Deletes it; returns what was deleted, and whether it came to the end within the time."""
    deadline = time.monotonic() + seconds
    return [_delete(name, kind, deadline, report) for name, kind in KINDS.items()], time.monotonic() < deadline


def _delete(name: str, kind: Kind, deadline: float, report: Report) -> Expired:
    if not kind.days:
        return Expired(name, 0, None)
    before, count = kind.before(), 0
    try:
        for number in kind.delete(before):
            count += number
            report("progress", {"done": count})
            if time.monotonic() >= deadline:
                break
            time.sleep(PAUSE_SECONDS)
    finally:
        if count:
            audit.record(audit.Action.EXPIRED, name, count=count, days=kind.days, before=before.isoformat())
    return Expired(name, kind.days, count)


# --- rows --------------------------------------------------------------------------------------------------------------


def _traces(before: datetime) -> QuerySet[models.Trace]:
    """Traces without feedback, that no training set uses and no experiment that goes on counts. Episodes stay too: a run's
    success rates are counted from them."""
    rated = [*(models.Feedback.objects.order_by().values(name) for name in ("trace", "other_trace"))]
    learned_from = models.TrainingSetTrace.objects.order_by().values("trace")
    going_on = models.Experiment.objects.exclude(state=models.Experiment.State.STOPPED)
    return (
        models.Trace.objects.filter(created_at__lt=before)
        .exclude(pk__in=rated[0])
        .exclude(pk__in=rated[1].filter(other_trace__isnull=False))
        .exclude(pk__in=learned_from)
        .exclude(pk__in=models.Episode.objects.order_by().values("trace"))
        .exclude(arm__experiment__in=going_on.order_by().values("pk"))
        .order_by("created_at")
    )


def _deliveries(before: datetime) -> QuerySet[models.WebhookDelivery]:
    waiting = models.WebhookDelivery.State.WAITING
    return models.WebhookDelivery.objects.filter(created_at__lt=before).exclude(state=waiting).order_by("created_at")


def _rows(choose: Callable[[datetime], QuerySet], field: str, setting: str) -> Kind:
    def delete(before: datetime) -> Iterator[int]:
        reached: datetime | None = None
        while True:
            chosen = choose(before)
            rest = chosen.filter(**{f"{field}__gte": reached}) if reached else chosen  # without what was seen to stay
            part = list(rest.values_list("pk", field)[:CHUNK])
            if not part:
                return
            reached = part[-1][1]
            yield _delete_rows(chosen, [key for key, _ in part])

    return Kind(setting, lambda before: choose(before).count(), delete)


def _delete_rows(chosen: QuerySet[Model], keys: list[object]) -> int:
    """A row that is locked cannot be rated meanwhile; one that was rated before is not chosen any more."""
    with transaction.atomic():
        list(chosen.model._default_manager.select_for_update().filter(pk__in=keys).values_list("pk", flat=True))
        still = list(chosen.filter(pk__in=keys).values_list("pk", flat=True))
        chosen.model._default_manager.filter(pk__in=still).delete()
    return len(still)


# --- files -------------------------------------------------------------------------------------------------------------


def _over(before: datetime) -> Iterable[models.TrainingRun]:
    ended = models.TrainingRun.objects.filter(finished_at__lt=before).exclude(state__in=models.TrainingRun.ACTIVE)
    return ended.order_by("pk").iterator(chunk_size=CHUNK)


def _logs(before: datetime) -> Iterator[Path]:
    """Logs of runs that are over and of llama.cpp servers that wrote nothing since."""
    for run in _over(before):
        if run.log_path.is_file():
            yield run.log_path
    for path in sorted((settings.DATA_DIR / "servers").glob("*.log")):
        if path.stat().st_mtime < before.timestamp():
            yield path


def _checkpoints(before: datetime) -> Iterator[Path]:
    """Checkpoints of runs that are over: a failed or cancelled one then cannot be resumed where it stopped."""
    for run in _over(before):
        yield from sorted(run.directory.glob("checkpoint-*"))


def _files(choose: Callable[[datetime], Iterator[Path]], setting: str) -> Kind:
    def delete(before: datetime) -> Iterator[int]:
        for path in list(choose(before)):
            files.remove(path)
            yield 1

    return Kind(setting, lambda before: sum(1 for _ in choose(before)), delete)


KINDS: dict[str, Kind] = {
    "waiting ratings": _rows(
        lambda before: models.WaitingRating.objects.filter(updated_at__lt=before).order_by("updated_at"),
        "updated_at",
        "TRACE_TOKEN_DAYS",
    ),
    "traces": _rows(_traces, "created_at", "KEEP_TRACES_DAYS"),
    "logs": _files(_logs, "KEEP_LOGS_DAYS"),
    "checkpoints": _files(_checkpoints, "KEEP_CHECKPOINTS_DAYS"),
    "webhook deliveries": _rows(_deliveries, "created_at", "KEEP_WEBHOOK_DELIVERIES_DAYS"),
    "audit events": _rows(
        lambda before: models.AuditEvent.objects.filter(at__lt=before).order_by("at"), "at", "KEEP_AUDIT_EVENTS_DAYS"
    ),
}
