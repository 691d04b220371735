"""Traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Prefetch, prefetch_related_objects
from drf_spectacular.utils import OpenApiParameter, PolymorphicProxySerializer
from rest_framework import status
from rest_framework.exceptions import APIException, NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from rl.base.errors import UsageError
from rl.collect.feedback.tokens import TokenSubject, read, sign
from rl.collect.feedback.waiting import deliver_by_id
from rl.collect.inserting import RowMaker
from rl.collect.traces.rows import TraceRows, agents_named, look_again, versions_named
from rl.models import Agent, ApiKey, Feedback, ModelVersion, Trace, prompt_key
from rl.web.api.auth import INGEST, READ
from rl.web.api.base import ApiView, success
from rl.web.api.lookups import by_id
from rl.web.api.pagination import TraceFilter, keys_within
from rl.web.api.problems import BAD_CHANGE, operation, problem
from rl.web.api.serializers.traces import Batch, TraceDetailOut, TraceIn, TraceOut, TraceStored, TraceWithFeedback

MAX_BATCH = 1000
MOST_EVENTS = 200
"""Feedback events that come with a trace."""
ONE_OR_MANY = PolymorphicProxySerializer(
    component_name="TraceOrTraces", serializers=[TraceIn, TraceIn(many=True)], resource_type_field_name=None, many=False
)


class TraceList(ApiView):
    scopes = {"GET": READ, "POST": INGEST}
    queryset = Trace.objects.select_related("agent", "model_version")
    filterset_class = TraceFilter
    serializer_class = TraceOut

    @operation("list_traces", "List traces, newest first", {200: TraceOut(many=True)}, 400, 404, tags=["traces"])
    def get(self, request: Request) -> Response:
        return self.list_rows(TraceOut)

    @operation(
        "store_traces",
        "Store one trace, or a list",
        {200: TraceStored, 201: TraceStored, 207: Batch},
        *BAD_CHANGE,
        tags=["traces"],
        request=ONE_OR_MANY,
        description=f"A list holds at most {MAX_BATCH} traces and is answered with 207 and what became of each. "
        "Posting again is safe where there is an external_id.",
    )
    def post(self, request: Request) -> Response:
        if isinstance(request.data, list):
            items = request.data
            if not 1 <= len(items) <= MAX_BATCH:
                raise ValidationError([f"send 1 to {MAX_BATCH} traces at a time, not {len(items)}"])
            checked: list[dict[str, Any] | ValidationError] = []
            for number, item in enumerate(items):
                try:
                    checked.append(self._read(item, f"-{number}"))
                except ValidationError as error:
                    checked.append(error)
            stored = iter(store([item for item in checked if isinstance(item, dict)], self.key))
            return Response(
                {"results": [_item(next(stored) if isinstance(item, dict) else item) for item in checked]},
                status=status.HTTP_207_MULTI_STATUS,
            )
        result = store([self._read(request.data)], self.key)[0]
        if isinstance(result, APIException):
            raise result
        document = {**_OUT.to_representation(result.trace), "token": result.token}
        return Response(document, status=success(result.created))

    def _read(self, item: Any, ending: str = "") -> dict[str, Any]:
        """Gives a trace without an id of its sender's one, where the request has a name. Raises ValidationError."""
        fields: dict[str, Any] = _IN.run_validation(item)
        own = f"repeat-{self.repeat_name}{ending}" if self.repeat_name else None
        return {**fields, "external_id": own} if own and fields.get("external_id") is None else fields


class TraceDetail(ApiView):
    scopes = {"GET": READ}
    queryset = Trace.objects.select_related("agent", "model_version")
    serializer_class = TraceDetailOut

    @operation(
        "get_trace",
        "One trace with its newest feedback",
        {200: TraceDetailOut},
        404,
        tags=["traces"],
        parameters=[OpenApiParameter("id", UUID, "path", description="In any form in which the gateway gives it.")],
    )
    def get(self, request: Request, **kwargs: Any) -> Response:
        trace = by_id(self.filter_queryset(self.get_queryset()), self.kwargs["pk"])
        if trace is None:
            raise NotFound
        events = trace.feedback.order_by("-created_at", "id")
        newest = Feedback.objects.filter(pk__in=keys_within(events, MOST_EVENTS)).select_related("agent")
        prefetch_related_objects([trace], Prefetch("feedback", newest))
        return Response({**TraceWithFeedback(trace).data, "feedback_count": events.count()})


# Building one takes longer than using it.
_IN = TraceIn()
_OUT = TraceOut()


def _item(result: Stored | APIException) -> dict[str, Any]:
    if isinstance(result, APIException):
        return {"status": result.status_code, "problem": problem(result)}
    trace = result.trace
    about = {"id": trace.pk, "external_id": trace.external_id, "token": result.token}
    return {"status": success(result.created), **about}


STORED_BY_OTHERS = "traces with the same external ids are being stored by others; try again"


@dataclass(frozen=True, slots=True)
class Stored:
    trace: Trace
    created: bool
    """False: the agent has a trace with this external id, which was left as it is."""
    token: str = ""
    """Lets a page rate it."""


def store(items: Sequence[dict[str, Any]], key: ApiKey) -> list[Stored | APIException]:
    """What became of each item, in order, with as many queries for one as for a thousand. ``items`` are validated data of
    TraceIn. Raises RunConflict when others keep storing the same external ids."""
    named = agents_named({item["agent"] for item in items})
    agents = {name: agent for name, agent in named.items() if key.agent_id in (None, agent.pk)}
    versions = versions_named({item["model_version"] for item in items if item.get("model_version")}, agents.values())
    prepared = [_build_trace(item, agents, versions) for item in items]
    traces = [trace for trace in prepared if isinstance(trace, Trace)]
    reserved = {row.pk for item, row in zip(items, prepared, strict=True) if "token" in item and isinstance(row, Trace)}
    stored = iter(look_again(partial(_insert, traces, reserved), STORED_BY_OTHERS))
    return [
        _with_token(next(stored), item) if isinstance(row, Trace) else row
        for item, row in zip(items, prepared, strict=True)
    ]


def _with_token(stored: Stored, item: dict[str, Any]) -> Stored:
    """For as many raters as the item asks for, else as the token that came with it."""
    raters = item.get("raters") or (read(item["token"]).raters if "token" in item else 1)
    return replace(stored, token=sign(TokenSubject(stored.trace.pk, stored.trace.agent_id, raters)))


def _build_trace(
    item: dict[str, Any], agents: dict[str, Agent], versions: dict[tuple[int, str], ModelVersion]
) -> Trace | APIException:
    fields = dict(item)
    name, version_name, token = (fields.pop(name, None) for name in ("agent", "model_version", "token"))
    fields.pop("raters", None)
    agent = agents.get(name.lower())
    if agent is None:
        return NotFound(f"no agent is named {name!r}, or this key is not for it; agents are made in the admin")
    version = versions.get((agent.pk, version_name.lower())) if version_name else None
    if version_name and version is None:
        return ValidationError({"model_version": [f"{agent.name} has no version {version_name!r}"]})
    if token is not None:
        try:
            subject = read(token)
        except UsageError as error:
            return ValidationError({"token": [str(error)]})
        if subject.agent_id != agent.pk:
            return ValidationError({"token": ["the token was made for another agent"]})
        fields["id"] = subject.trace_id
    about = {"agent_id": agent.pk, "model_version_id": version and version.pk}
    return _new_trace(
        {**about, "prompt_key": prompt_key(fields["prompt"]), **fields}, agent=agent, model_version=version
    )


_new_trace = RowMaker(Trace)


def _insert(traces: list[Trace], reserved: set[UUID]) -> list[Stored]:
    """``reserved``: ids that were given before there was an answer; ratings may wait for these."""
    rows = TraceRows(
        ((trace.agent_id, trace.external_id) for trace in traces if trace.external_id is not None),
        Trace.objects.select_related("agent", "model_version"),
    )
    by_id = Trace.objects.select_related("agent", "model_version").in_bulk(reserved) if reserved else {}
    stored = [_decide(trace, rows, by_id) for trace in traces]
    with transaction.atomic():
        rows.save()
        deliver_by_id({row.trace.pk: row.trace for row in stored if row.created and row.trace.pk in reserved})
    return stored


def _decide(trace: Trace, rows: TraceRows, by_id: dict[UUID, Trace]) -> Stored:
    """``by_id`` gets what is added: two of a list may bring one token."""
    here = None if trace.external_id is None else rows.get(trace.agent_id, trace.external_id)
    here = here or by_id.get(trace.pk)
    if here is None:
        rows.add(trace)
        by_id[trace.pk] = trace
    return Stored(here or trace, created=here is None)
