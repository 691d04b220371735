"""The state of the database and the disk in Prometheus' format. It is looked up on request, so that it is the same whichever
process answers."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from django.conf import settings
from django.db import DatabaseError
from django.db.models import Count, Max, Min, Model, QuerySet
from django.utils import timezone
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from rl.models import Deployment, Evaluation, Experiment, Feedback, TrainingRun, WebhookDelivery

FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
"""Where several processes of one ``serve`` put what they count; prometheus-client reads it when it is imported."""


def exposition() -> bytes:
    """Counts of all processes that serve, and how things stand, in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(StandingMetrics())
    counters = REGISTRY
    if FOLDER_VARIABLE in os.environ:
        counters = CollectorRegistry()
        MultiProcessCollector(counters)
    return generate_latest(counters) + generate_latest(registry)


class StandingMetrics(Collector):
    def collect(self) -> Iterator[Metric]:
        yield _gauge("ratchet_info", "Which version runs.", {settings.VERSION: 1}, "version")
        yield _gauge(
            "ratchet_disk_free_bytes",
            "Free bytes on the disk of DATA_DIR.",
            {"": shutil.disk_usage(settings.DATA_DIR).free},
        )
        try:
            metrics = [metric for look in _LOOKS for metric in look()]
        except DatabaseError:
            metrics = []
        yield _gauge(
            "ratchet_database_up", "0: the database did not answer; what it knows is missing.", {"": bool(metrics)}
        )
        yield from metrics


def _queue() -> Iterable[Metric]:
    from django_q.brokers import get_broker  # reads the queue's settings when imported
    from django_q.models import OrmQ, Task

    yield _gauge("ratchet_queue_tasks", "Tasks that wait for a worker.", {"": get_broker().queue_size()})
    if "orm" in settings.Q_CLUSTER:
        now = timezone.now()
        oldest = OrmQ.objects.filter(lock__lte=now).aggregate(oldest=Min("lock"))["oldest"]
        yield _gauge("ratchet_queue_oldest_seconds", "How long the oldest of them has waited.", {"": _age(oldest) or 0})
    last = Task.objects.filter(success=True).aggregate(last=Max("stopped"))["last"]
    text = "Since a task last succeeded; minutes mean that no qcluster is running."
    yield _gauge("ratchet_queue_last_success_seconds", text, {"": age} if (age := _age(last)) is not None else {})


def _runs() -> Iterable[Metric]:
    states = _count_by(TrainingRun.objects.all(), "state", TrainingRun.State.values)
    yield _gauge("ratchet_runs", "Trainings, by state.", states, "state")
    silent = TrainingRun.objects.filter(state=TrainingRun.State.RUNNING).aggregate(at=Min("heartbeat_at"))["at"]
    yield _gauge("ratchet_run_silent_seconds", "Of running trainings, the longest silence.", {"": _age(silent) or 0})


def _learning() -> Iterable[Metric]:
    verdicts = _count_by(Evaluation.objects.all(), "verdict", Evaluation.Verdict.values)
    yield _gauge("ratchet_gate_verdicts", "Evaluations that there are, by the gate's verdict.", verdicts, "verdict")
    newest = Feedback.objects.aggregate(newest=Max("pk"))["newest"] or 0
    ratings = CounterMetricFamily(
        "ratchet_ratings", "Number of the newest feedback event; they are numbered as they come."
    )
    ratings.add_metric([], newest)
    yield ratings
    states = _count_by(Experiment.objects.all(), "state", Experiment.State.values)
    yield _gauge("ratchet_experiments", "Experiments, by state.", states, "state")
    targets = _count_by(Deployment.objects.all(), "target", Deployment.Target.values)
    yield _gauge("ratchet_deployments", "Versions that are served, by target.", targets, "target")


def _webhooks() -> Iterable[Metric]:
    states = _count_by(WebhookDelivery.objects.all(), "state", WebhookDelivery.State.values)
    yield _gauge("ratchet_webhook_messages", "Messages of webhooks, by state.", states, "state")
    waiting = WebhookDelivery.objects.filter(state=WebhookDelivery.State.WAITING)
    oldest = waiting.aggregate(oldest=Min("created_at"))["oldest"]
    yield _gauge("ratchet_webhook_oldest_seconds", "Age of the oldest one that waits.", {"": _age(oldest) or 0})


_LOOKS: Final[tuple[Callable[[], Iterable[Metric]], ...]] = (_queue, _runs, _learning, _webhooks)


def _count_by(rows: QuerySet[Model], field: str, values: Iterable[str]) -> dict[str, int]:
    """Number of rows by the value of a field; 0 for a value without rows."""
    counts = dict(rows.order_by().values_list(field).annotate(number=Count("pk")))
    return {value: counts.get(value, 0) for value in values}


def _age(moment: datetime | None) -> float | None:
    return max(0.0, (timezone.now() - moment).total_seconds()) if moment else None


def _gauge(name: str, text: str, values: Mapping[str, float], label: str = "") -> GaugeMetricFamily:
    """``values``: by the value of the label; by the empty text where there is none."""
    family = GaugeMetricFamily(name, text, labels=[label] if label else [])
    for value, number in values.items():
        family.add_metric([value] if label else [], float(number))
    return family
