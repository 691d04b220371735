"""Traces."""

from __future__ import annotations

from typing import Any

from django.db.models import Prefetch, prefetch_related_objects
from django.http import Http404
from drf_spectacular.utils import PolymorphicProxySerializer
from rest_framework import status
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from rl.collect.traces.rows import run_id
from rl.models import Feedback, Trace
from rl.serving.gateway import pending
from rl.web.api.auth import INGEST, READ
from rl.web.api.base import ApiView, success
from rl.web.api.filters import TraceFilter
from rl.web.api.openapi import BAD_BODY, operation
from rl.web.api.problems import problem
from rl.web.api.serializers.traces import Batch, TraceDetailOut, TraceIn, TraceOut, TraceStored, TraceWithFeedback
from rl.web.api.sizes import size_of, within
from rl.web.api.trace_writing import Stored, store

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
        *BAD_BODY,
        404,
        409,
        tags=["traces"],
        request=ONE_OR_MANY,
        description=f"A list holds at most {MAX_BATCH} traces and is answered with 207 and what became of each. "
        "Posting again is safe where there is an external_id.",
    )
    def post(self, request: Request) -> Response:
        if isinstance(request.data, list):
            return self._store_list(request.data)
        result = store([_IN.run_validation(request.data)], self.key)[0]
        if isinstance(result, APIException):
            raise result
        document = {**_OUT.to_representation(result.trace), "token": result.token}
        return Response(document, status=success(result.created))

    def _store_list(self, items: list[Any]) -> Response:
        if not 1 <= len(items) <= MAX_BATCH:
            raise ValidationError([f"send 1 to {MAX_BATCH} traces at a time, not {len(items)}"])
        checked = [_check(item) for item in items]
        stored = iter(store([item for item in checked if isinstance(item, dict)], self.key))
        results = [next(stored) if isinstance(item, dict) else item for item in checked]
        return Response({"results": [_item(result) for result in results]}, status=status.HTTP_207_MULTI_STATUS)


class TraceDetail(ApiView):
    scopes = {"GET": READ}
    queryset = Trace.objects.select_related("agent", "model_version")
    serializer_class = TraceDetailOut

    @operation("get_trace", "One trace with its newest feedback", {200: TraceDetailOut}, 404, tags=["traces"])
    def get(self, request: Request, **kwargs: Any) -> Response:
        try:
            trace = self.get_object()
        except Http404:
            pending.deliver_named([str(self.kwargs["pk"])])  # of the gateway, a moment ago
            self.kwargs["pk"] = run_id(self.kwargs["pk"])
            trace = self.get_object()
        events = trace.feedback.order_by("-created_at", "id")
        newest = within(events.values_list("pk", size_of(Feedback))[:MOST_EVENTS], lambda key: key[1])
        prefetch_related_objects(
            [trace],
            Prefetch("feedback", Feedback.objects.filter(pk__in=[pk for pk, _ in newest]).select_related("agent")),
        )
        return Response({**TraceWithFeedback(trace).data, "feedback_count": events.count()})


# Building one takes longer than using it.
_IN = TraceIn()
_OUT = TraceOut()


def _check(item: Any) -> dict[str, Any] | ValidationError:
    try:
        return _IN.run_validation(item)
    except ValidationError as error:
        return error


def _item(result: Stored | APIException) -> dict[str, Any]:
    if isinstance(result, APIException):
        return {"status": result.status_code, "problem": problem(result)}
    trace = result.trace
    about = {"id": trace.pk, "external_id": trace.external_id, "token": result.token}
    return {"status": success(result.created), **about}
