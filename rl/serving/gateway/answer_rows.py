"""The gateway's answers as rows: traces, who got which arm, and how often each arm was asked and failed.

A request with the results of an answer's tool calls goes on with its run, as ``rl/collect/traces/joining.py`` tells: of the
same version, user, session and prompt, with the same calls. The trace of the earlier answer goes, and its id names the run
from then on. One that somebody has rated or trained on stays an answer of its own, and its run begins anew behind it.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from rl.base.messages import has_calls, requested_calls
from rl.base.records import Message, ReasoningStep
from rl.collect.feedback.waiting import deliver_by_id, find_awaited
from rl.collect.otlp.history import History, in_words, tool_calls
from rl.collect.otlp.mapping import FoundAnswer
from rl.collect.traces import joining
from rl.collect.traces.imported import ImportedTrace
from rl.collect.traces.records import as_json_items
from rl.collect.traces.rows import TraceRows, take_turns
from rl.models import Agent, ApiKey, Arm, Assignment, ModelVersion, RunPart, Trace, prompt_key
from rl.models.traces import GATEWAY

log = logging.getLogger(__name__)
_FIGURES: Final = ("tokens_in", "tokens_out", "duration_ms")
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
    # where earlier turns of the prompt called tools, the messages with the calls as data
    messages = [*document["prompt"], *document.get("steps", ())]
    return Trace(
        id=key,
        external_id=str(key) if has_external_id else None,
        source=document.get("source", GATEWAY),
        model_version_id=None if deleted else document["model_version_id"],
        arm_id=document["arm_id"] if document["arm_id"] in arms else None,
        prompt=list(in_words(document["prompt"])),
        prompt_key=prompt_key(document["prompt"]),
        details={
            **({"messages": [*messages, document["turn"]]} if has_calls(document["prompt"]) else {}),
            **document["details"],
            **({"model_version": document["version"]} if deleted else {}),
        },
        llm_calls=document.get("llm_calls", 1),
        occurred_at=datetime.fromisoformat(document["occurred_at"]),
        **{name: document[name] for name in (*plain, *_FIGURES)},
    )


def _count(answered: Iterable[Document], failed: Iterable[Unanswered]) -> None:
    failures = Counter(request.arm_id for request in failed)
    requests = Counter(document["arm_id"] for document in answered) + failures
    failures += Counter(document["arm_id"] for document in answered if document["failed"])
    for arm_id in sorted(requests):
        Arm.objects.filter(pk=arm_id).update(
            requests=F("requests") + requests[arm_id], failures=F("failures") + failures[arm_id]
        )


RUN: Final = "run"
"""The part of a trace's details that tells its answers."""
_SAME: Final = ("agent_id", "model_version_id", "arm_id", "unit", "session_id")
"""Columns that are equal within a run, beside the prompt."""
Kind = tuple[Any, ...]
"""The values of the columns that are the same."""


@dataclass(slots=True)
class Joined:
    documents: dict[UUID, Document]
    """Those that become traces, with all that came before them."""
    parts: dict[UUID, UUID] = field(default_factory=dict)
    """Ids of answers within a run, and the run's."""
    replaced: set[UUID] = field(default_factory=set)
    """Stored traces that went on."""
    grown: list[Trace] = field(default_factory=list)
    """Stored runs of which an earlier answer came late."""


def follow_each_other(documents: Iterable[Document]) -> None:
    """Whoever stores answers of the same runs at this moment waits here until the end of the transaction."""
    take_turns({document["agent_id"] for document in documents if _is_part(document)})


def join(documents: Mapping[UUID, Document]) -> Joined:
    """``documents`` that are not stored yet, after ``follow_each_other``; ``settle`` once its documents are inserted."""
    joined = Joined(dict(documents))
    calling = {key: document for key, document in documents.items() if _is_part(document)}
    if not calling:
        return joined
    runs, judged = _stored_runs(calling.values())
    for key in sorted(calling, key=lambda key: calling[key]["occurred_at"]):
        answer, same_kind = _as_answer(key, calling[key]), runs[_kind(calling[key])]
        open_runs = (
            run for run in same_kind if run.trace is None or run.trace.pk not in judged or run.came_after(answer)
        )
        if run := joining.find([run for run in open_runs if _same_calls(run, answer)], answer):
            run.add(answer)
        else:
            same_kind.append(joining.begin(answer))
    for run in (run for of_kind in runs.values() for run in of_kind):
        _decide(run, joined)
    return joined


def settle(joined: Joined) -> None:
    rows = [RunPart(id=part, trace_id=run) for part, run in joined.parts.items()]
    RunPart.objects.bulk_create(rows, update_conflicts=True, unique_fields=["id"], update_fields=["trace"])
    Trace.objects.filter(pk__in=joined.replaced).delete()
    Trace.objects.bulk_update(joined.grown, joining.COLUMNS, batch_size=100)


def _decide(run: joining.JoinedRun, joined: Joined) -> None:
    """The last answer becomes the trace, if it has just come."""
    if run.answer is None and not run.changed:
        return
    *earlier, last = (UUID(part["external_id"]) for part in run.parts)
    for part in earlier:
        joined.documents.pop(part, None)
    joined.parts |= dict.fromkeys(earlier, last)
    if run.answer is not None:
        document = joined.documents[last]
        stored = run.trace.reasoning_steps if run.trace else []
        joined.documents[last] = {
            **document,
            **{name: value for name, value in joining.sums_of(run).items() if name != "cost"},
            "prompt": run.prompt,
            "tool_calls": [*tool_calls(run.steps), *document["tool_calls"]],
            "reasoning_steps": [*stored, *as_json_items(run.reasoning)],
            "occurred_at": run.parts[0]["at"],
            "details": _details(run, document["details"]),
        }
    elif run.trace is not None:
        for name, value in joining.sums_of(run).items():
            setattr(run.trace, name, value)
        run.trace.occurred_at = datetime.fromisoformat(run.parts[0]["at"])
        run.trace.reasoning_steps = [*as_json_items(run.reasoning), *run.trace.reasoning_steps]
        run.trace.details = _details(run, run.trace.details)
        run.trace.reward_pending = True
        joined.grown.append(run.trace)
    if run.trace is not None and run.trace.pk != last:
        joined.replaced.add(run.trace.pk)


def _details(run: joining.JoinedRun, details: Mapping[str, Any]) -> dict[str, Any]:
    return {**joining.details_of(run, dict(details), RUN), RUN: {"parts": run.parts}}


# --- which runs there are ----------------------------------------------------------------------------------------------


def _is_part(document: Document) -> bool:
    """Whether there may be other answers of its run; files of an older release do not say."""
    return bool(document.get("steps") or document.get("turn", {}).get("tool_calls"))


def _kind(document: Document) -> Kind:
    return (*(document[name] for name in _SAME), prompt_key(document["prompt"]))


def _stored_runs(documents: Iterable[Document]) -> tuple[defaultdict[Kind, list[joining.JoinedRun]], set[UUID]]:
    """Those that the documents may belong to, locked, and the traces of those of which somebody has said something."""
    kinds = set(map(_kind, documents))
    near = Trace.objects.filter(source=GATEWAY, details__has_key=RUN)
    for number, name in enumerate((*_SAME, "prompt_key")):
        values = {kind[number] for kind in kinds}
        known = Q(**{f"{name}__in": values - {None}})
        near = near.filter(known | Q(**{name: None}) if None in values else known)
    newest = list(near.order_by("-created_at").values_list("pk", flat=True)[: joining.NEWEST])
    # in the order in which all writers lock them; nobody can rate them until the end of the transaction
    traces = list(Trace.objects.select_for_update().filter(pk__in=newest).order_by("pk"))
    runs: defaultdict[Kind, list[joining.JoinedRun]] = defaultdict(list)
    for trace in traces:
        if run := joining.stored_run(trace, RUN):
            runs[(*(getattr(trace, name) for name in _SAME), trace.prompt_key)].append(run)
    here = Trace.objects.filter(pk__in=[trace.pk for trace in traces])
    judged = here.exclude(feedback=None) | here.exclude(compared=None) | here.exclude(memberships=None)
    return runs, set(judged.order_by().values_list("pk", flat=True))


def _as_answer(key: UUID, document: Document) -> FoundAnswer:
    steps = tuple(document["steps"])
    record = ImportedTrace(
        where=str(key),
        external_id=str(key),
        prompt=tuple(document["prompt"]),
        response=document["response"],
        session_id=document["session_id"],
        reasoning_steps=tuple(ReasoningStep(**step) for step in document["reasoning_steps"]),
        occurred_at=datetime.fromisoformat(document["occurred_at"]),
        **{name: document[name] for name in _FIGURES},
    )
    history = History(record.prompt, steps, record.prompt, given=record.prompt)
    return FoundAnswer("", "", str(key), "model", record, history, document["turn"])


def _same_calls(run: joining.JoinedRun, answer: FoundAnswer) -> bool:
    """Whether one goes on from the other: ids alone do not tell, some servers give every answer the same ones."""
    first, second = _calls([*run.steps, run.turn]), _calls([*answer.history.steps, answer.turn])
    shared = min(len(first), len(second))
    return first[:shared] == second[:shared]


def _calls(messages: Sequence[Message]) -> list[Any]:
    return [call for message in messages for call in requested_calls(message)]
