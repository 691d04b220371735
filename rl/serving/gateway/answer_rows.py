"""The gateway's answers as rows: traces, who got which arm, and how often each arm was asked and failed."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from rl.base.messages import has_calls
from rl.collect.feedback.waiting import deliver_by_id, find_awaited
from rl.collect.otlp.history import in_words
from rl.collect.traces.rows import TraceRows
from rl.models import Agent, ApiKey, Arm, Assignment, ModelVersion, RunPart, Trace, prompt_key
from rl.models.traces import GATEWAY
from rl.serving.gateway.run_rows import follow_each_other, join, settle

log = logging.getLogger(__name__)
Document = Mapping[str, Any]
"""The columns of a trace, with ``version``, ``experiment_id``, ``api_key_id`` and ``failed``; ``steps``, what the agent did
since its prompt, and ``turn``, its answer, are messages with their tool calls as data. A ``source`` other than the gateway's
is of an answer that nobody asked for."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A request that an arm got and did not answer."""

    experiment_id: int
    arm_id: int
    unit: str


def store(documents: Mapping[UUID, Document], unanswered: Collection[Unanswered] = ()) -> None:
    """In one transaction. What is here already is not counted again. Raises DatabaseError, or what a document that is not
    as the gateway writes it leads to."""
    arm_ids = {document["arm_id"] for document in documents.values()} | {request.arm_id for request in unanswered}
    with transaction.atomic():
        follow_each_other(documents.values())
        # Whoever stores the same answers at this moment waits here, and then finds them.
        rows = Arm.objects.select_for_update(no_key=True).filter(pk__in=arm_ids - {None}).order_by("pk")
        arms = set(rows.values_list("pk", flat=True))
        new = _new(documents)
        joined = join(new)
        _insert(joined.documents, arms)
        settle(joined)
        _deliver_ratings(new)
        answered = [document for document in new.values() if document["arm_id"] in arms]
        failed = [request for request in unanswered if request.arm_id in arms]
        _count(answered, failed)
        # the latest wins; one row each, as PostgreSQL changes no row twice in one statement
        latest = {(document["experiment_id"], document["unit"]): document["arm_id"] for document in answered}
        latest |= {(request.experiment_id, request.unit): request.arm_id for request in failed}
        assigned = [Assignment(experiment_id=trial, unit=unit, arm_id=arm) for (trial, unit), arm in latest.items()]
        Assignment.objects.bulk_create(
            assigned, update_conflicts=True, unique_fields=["experiment", "unit"], update_fields=["arm"]
        )
        keys = {document["api_key_id"] for document in new.values()} - {None}
        ApiKey.objects.filter(pk__in=keys).update(last_used_at=timezone.now())


def _deliver_ratings(documents: Mapping[UUID, Document]) -> None:
    """A page may have been faster than the database."""
    answers = find_awaited({key: document["agent_id"] for key, document in documents.items()})
    if not answers:
        return
    runs = dict(RunPart.objects.filter(pk__in=answers).order_by().values_list("pk", "trace_id"))
    traces = Trace.objects.only("agent_id").in_bulk({*answers, *runs.values()})
    here = {answer: traces.get(answer) or traces.get(runs.get(answer)) for answer in answers}
    deliver_by_id({answer: trace for answer, trace in here.items() if trace is not None})


def _new(documents: Mapping[UUID, Document]) -> dict[UUID, Document]:
    ids = [of.objects.filter(pk__in=documents).order_by().values_list("pk", flat=True) for of in (Trace, RunPart)]
    stored = set(ids[0].union(ids[1]))
    agent_ids = {document["agent_id"] for document in documents.values()}
    agents = set(Agent.objects.filter(pk__in=agent_ids).order_by().values_list("pk", flat=True))
    if homeless := sum(document["agent_id"] not in agents for document in documents.values()):
        log.warning("%s answers of agents that were deleted are dropped", homeless)
    return {
        key: document for key, document in documents.items() if key not in stored and document["agent_id"] in agents
    }


def _insert(documents: Mapping[UUID, Document], arms: Collection[int]) -> None:
    """Another trace of the agent may have its external id: OpenTelemetry may have sent the same answer sooner."""
    versions = set(
        ModelVersion.objects.filter(pk__in={document["model_version_id"] for document in documents.values()})
        .order_by()
        .values_list("pk", flat=True)
    )
    keys = ((document["agent_id"], str(key)) for key, document in documents.items())
    rows = TraceRows(keys, Trace.objects.only("agent_id", "external_id"))
    for key, document in documents.items():
        rows.add(_trace(key, document, versions, arms, rows.get(document["agent_id"], str(key)) is None))
    rows.save(ignore_conflicts=True)


def _trace(
    key: UUID, document: Document, versions: Collection[int], arms: Collection[int], has_external_id: bool
) -> Trace:
    """Its external id is its own id, so that whoever knows the answer by the id of the response finds it."""
    deleted = document["model_version_id"] is not None and document["model_version_id"] not in versions
    plain = ("agent_id", "session_id", "unit", "response", "tool_calls", "reasoning_steps")
    figures = ("tokens_in", "tokens_out", "duration_ms")
    return Trace(
        id=key,
        external_id=str(key) if has_external_id else None,
        source=document.get("source", GATEWAY),
        model_version_id=None if deleted else document["model_version_id"],
        arm_id=document["arm_id"] if document["arm_id"] in arms else None,
        prompt=list(in_words(document["prompt"])),
        prompt_key=prompt_key(document["prompt"]),
        details={
            **_messages(document),
            **document["details"],
            **({"model_version": document["version"]} if deleted else {}),
        },
        llm_calls=document.get("llm_calls", 1),
        occurred_at=datetime.fromisoformat(document["occurred_at"]),
        **{name: document[name] for name in (*plain, *figures)},
    )


def _messages(document: Document) -> dict[str, Any]:
    """Where earlier turns of the prompt called tools, the messages with the calls as data."""
    messages = [*document["prompt"], *document.get("steps", ())]
    return {"messages": [*messages, document["turn"]]} if has_calls(document["prompt"]) else {}


def _count(answered: Iterable[Document], failed: Iterable[Unanswered]) -> None:
    failures = Counter(request.arm_id for request in failed)
    requests = Counter(document["arm_id"] for document in answered) + failures
    failures += Counter(document["arm_id"] for document in answered if document["failed"])
    for arm_id in sorted(requests):
        Arm.objects.filter(pk=arm_id).update(
            requests=F("requests") + requests[arm_id], failures=F("failures") + failures[arm_id]
        )
