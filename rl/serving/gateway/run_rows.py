"""The answers of one loop of tools, joined into one run: the trace of its last answer, which people see and rate.

A request with the results of an answer's tool calls goes on with its run, as ``rl/collect/traces/joining.py`` tells: of the
same version, user, session and prompt, with the same calls. The trace of the earlier answer goes, and its id names the run
from then on. One that somebody has rated or trained on stays an answer of its own, and its run begins anew behind it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Q

from rl.base.messages import requested_calls
from rl.base.records import Message, ReasoningStep
from rl.collect.otlp.history import History, tool_calls
from rl.collect.otlp.mapping import FoundAnswer
from rl.collect.traces import joining
from rl.collect.traces.imported import ImportedTrace
from rl.collect.traces.records import as_json_items
from rl.collect.traces.rows import take_turns
from rl.models import RunPart, Trace, prompt_key
from rl.models.traces import GATEWAY

RUN: Final = "run"
"""The part of a trace's details that tells its answers."""
_SAME: Final = ("agent_id", "model_version_id", "arm_id", "unit", "session_id")
"""Columns that are equal within a run, beside the prompt."""
_FIGURES: Final = ("tokens_in", "tokens_out", "duration_ms")
Document = Mapping[str, Any]
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


def _decide(run: joining.Run, joined: Joined) -> None:
    """The last answer becomes the trace, if it has just come."""
    if run.answer is None and not run.changed:
        return
    *earlier, last = (UUID(part["external_id"]) for part in run.parts)
    for part in earlier:
        joined.documents.pop(part, None)
    joined.parts |= dict.fromkeys(earlier, last)
    if run.answer is not None:
        joined.documents[last] = _with_run(joined.documents[last], run)
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


def _with_run(document: Document, run: joining.Run) -> Document:
    stored = run.trace.reasoning_steps if run.trace else []
    return {
        **document,
        **{name: value for name, value in joining.sums_of(run).items() if name != "cost"},
        "prompt": run.prompt,
        "tool_calls": [*tool_calls(run.steps), *document["tool_calls"]],
        "reasoning_steps": [*stored, *as_json_items(run.reasoning)],
        "occurred_at": run.parts[0]["at"],
        "details": _details(run, document["details"]),
    }


def _details(run: joining.Run, details: Mapping[str, Any]) -> dict[str, Any]:
    return {**joining.details_of(run, dict(details), RUN), RUN: {"parts": run.parts}}


# --- which runs there are ----------------------------------------------------------------------------------------------


def _is_part(document: Document) -> bool:
    """Whether there may be other answers of its run; files of an older release do not say."""
    return bool(document.get("steps") or document.get("turn", {}).get("tool_calls"))


def _kind(document: Document) -> Kind:
    return (*(document[name] for name in _SAME), prompt_key(document["prompt"]))


def _stored_runs(documents: Iterable[Document]) -> tuple[defaultdict[Kind, list[joining.Run]], set[UUID]]:
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
    runs: defaultdict[Kind, list[joining.Run]] = defaultdict(list)
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


def _same_calls(run: joining.Run, answer: FoundAnswer) -> bool:
    """Whether one goes on from the other: ids alone do not tell, some servers give every answer the same ones."""
    first, second = _calls([*run.steps, run.turn]), _calls([*answer.history.steps, answer.turn])
    shared = min(len(first), len(second))
    return first[:shared] == second[:shared]


def _calls(messages: Sequence[Message]) -> list[Any]:
    return [call for message in messages for call in requested_calls(message)]
