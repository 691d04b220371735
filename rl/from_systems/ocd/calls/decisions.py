"""Decisions of agents, and the feedback and outcomes that come later."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from rest_framework import status
from rest_framework.exceptions import APIException, NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from rl.base.errors import UsageError
from rl.collect.feedback import write
from rl.collect.feedback.imported_feedback import event_of
from rl.collect.storable import unstorable
from rl.collect.traces import imported
from rl.collect.traces.write import TOO_MANY_AGENTS, TraceStore
from rl.from_systems.ocd import records
from rl.from_systems.ocd.calls import base
from rl.models import ApiKey, Feedback, Trace
from rl.web.api.auth import INGEST, visible_to
from rl.web.api.base import ApiView, success
from rl.web.api.lookups import by_external_id
from rl.web.api.problems import BAD_BODY, BAD_CHANGE, BadRequest, Conflict, problem
from rl.web.api.traces import Stored

MAX_BATCH = 1000


class DecisionList(ApiView):
    scopes = {"POST": INGEST}
    serializer_class = base.DecisionIn

    @base.decision_call(
        "store_decision",
        "Store one decision",
        {200: base.DecisionOut, 201: base.DecisionOut},
        *BAD_CHANGE,
        description="The same id again adds what is new: details, feedback, outcomes. Another state or action under it is "
        "refused with 409. Without an id, the same decision is known by its content.",
    )
    def post(self, request: Request) -> Response:
        result = store([request.data], self.key)[0]
        if isinstance(result, APIException):
            raise result
        return Response(_identify(result.trace), status=success(result.created))


class DecisionBulk(ApiView):
    scopes = {"POST": INGEST}
    serializer_class = base.DecisionIn

    @base.decision_call(
        "store_decisions",
        "Store many decisions",
        {207: base.DecisionBatch},
        *BAD_BODY,
        request=base.DecisionIn(many=True),
        description=f"At most {MAX_BATCH}; the answer says what became of each.",
    )
    def post(self, request: Request) -> Response:
        items = request.data
        if not isinstance(items, list) or not 1 <= len(items) <= MAX_BATCH:
            raise ValidationError([f"send a list of 1 to {MAX_BATCH} decisions"])
        results: list[dict[str, Any]] = [
            {"status": result.status_code, "problem": problem(result)}
            if isinstance(result, APIException)
            else {"status": success(result.created), **_identify(result.trace)}
            for result in store(items, self.key)
        ]
        return Response({"results": results}, status=status.HTTP_207_MULTI_STATUS)


class FollowUp(ApiView):
    """Feedback on, or outcomes of, a decision that is stored."""

    scopes = {"POST": INGEST}

    def find(self, reference: str, agent_type: str | None) -> Trace:
        """Finds a trace by our id or by the caller's own. Raises NotFound, and BadRequest where agents share the id."""
        columns = ("agent__name", "external_id", "response", "action", "details")
        decisions = Trace.objects.filter(action__isnull=False).select_related("agent").only(*columns)
        rows = visible_to(self.key, decisions)
        with suppress(ValueError):
            if trace := rows.filter(pk=UUID(reference)).first():
                return trace
        traces = [] if unstorable(reference) else list(by_external_id(rows, [reference], agent_type))
        if len(traces) > 1:
            names = ", ".join(sorted(trace.agent.name for trace in traces))
            raise BadRequest(f"several agents have a decision {reference[:200]!r} ({names}): name one as 'agentType'")
        if not traces:
            raise NotFound(f"there is no decision {reference[:200]!r}, or this key is not for its agent")
        return traces[0]

    @staticmethod
    def user_of(trace: Trace) -> Any:
        """Whom the decision was made for, as its record says; None where it does not."""
        about = trace.details.get("decision")
        return about.get("userId") if isinstance(about, dict) else None

    def record(self, trace: Trace, entries: Sequence[imported.ImportedFeedback], ignored: list[str]) -> Response:
        new: list[Feedback] = []
        for entry in entries:
            try:
                new.append(event_of(entry, trace, source=SOURCE, api_key=self.key, rated_at=entry.rated_at))
            except UsageError as error:
                ignored.append(f"{entry.metric or entry.kind}: {error}")
        ratings = [event for event in new if event.kind == Feedback.Kind.RATING]
        others = [event for event in new if event.kind != Feedback.Kind.RATING]
        recorded = sum(rated.changed for rated in (*write.record(ratings), *write.append(others)))
        answer = {**_identify(trace), "recorded": recorded, "ignored": ignored}
        return Response(answer, status=success(recorded > 0))


class DecisionFeedback(FollowUp):
    serializer_class = base.DecisionFeedbackIn

    @base.decision_call(
        "judge_decision",
        "Say what a person made of a decision",
        {200: base.Recorded, 201: base.Recorded},
        *BAD_CHANGE,
        description="`userFeedback` becomes a rating, and a newer one of the same user supersedes it; `userCorrection` "
        "becomes a correction. The id is Ratchet's or your own.",
    )
    def post(self, request: Request, pk: str) -> Response:
        data = _as_sent(self.check_body(base.DecisionFeedbackIn))
        trace = self.find(pk, data.get("agentType"))
        entries = records.user_feedback({**data, "userId": data.get("userId") or self.user_of(trace)}, trace.action)
        known = data.get("userCorrection") is not None and all(entry.kind != "correction" for entry in entries)
        return self.record(trace, entries, ["userCorrection: it is the action itself"] if known else [])


class DecisionOutcomes(FollowUp):
    serializer_class = base.DecisionOutcomesIn

    @base.decision_call(
        "observe_decision",
        "Report outcomes of a decision",
        {200: base.Recorded, 201: base.Recorded},
        *BAD_CHANGE,
        description="Each number, true (1) or false (0) becomes an outcome. The id is Ratchet's or your own.",
    )
    def post(self, request: Request, pk: str) -> Response:
        data = _as_sent(self.check_body(base.DecisionOutcomesIn))
        ignored = [f"{name}: neither a number nor true or false" for name in records.other_metrics(data)]
        return self.record(self.find(pk, data.get("agentType")), records.outcomes(data), ignored)


def _identify(trace: Trace) -> dict[str, Any]:
    return {"id": trace.pk, "externalId": trace.external_id, "agentType": trace.agent.name}


def _as_sent(checked: dict[str, Any]) -> dict[str, Any]:
    """The data with the times as text again, as a decision's record has them."""
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in checked.items()}


SOURCE = "decisions"


def store(items: Sequence[Any], key: ApiKey) -> list[Stored | APIException]:
    """What became of each, in order; what is new in one that was there already is added. Agents that an unbound key names
    are created. Raises RunConflict when others keep storing the same."""
    parsed = [_read(item, key) for item in items]
    records = [record for record in parsed if isinstance(record, imported.ImportedTrace)]
    rows = by_external_id(visible_to(key, Trace.objects.order_by()), [record.external_id for record in records])
    here = {(name.lower(), own_id or "") for name, own_id in rows.values_list("agent__name", "external_id")}
    traces = TraceStore(SOURCE, agent=key.agent).take(records)
    stored = iter([_result(record, trace, here) for record, trace in zip(records, traces, strict=True)])
    return [next(stored) if isinstance(record, imported.ImportedTrace) else record for record in parsed]


def _read(item: Any, key: ApiKey) -> imported.ImportedTrace | APIException:
    record = records.read_decision(item, "the decision")
    if isinstance(record, imported.Rejected):
        return BadRequest(record.reason)
    if reason := imported.problem(record):
        return BadRequest(reason)
    if key.agent is None:
        return record if record.agent else BadRequest("agentType is missing: say whose decision it is")
    if record.agent and record.agent.lower() != key.agent.name.lower():
        return NotFound(f"there is no agent {record.agent!r}, or this key is not for it")
    return replace(record, agent=key.agent.name)


def _result(record: imported.ImportedTrace, trace: Trace | None, here: set[tuple[str, str]]) -> Stored | APIException:
    """``here``: agent (lower case) and external id of those that are stored; it grows, as a list may name the same
    decision twice."""
    known = (record.agent.lower(), record.external_id)
    if trace is None and known in here:
        return Conflict(f"the id {record.external_id!r} belongs to another decision of this agent")
    if trace is None:
        return BadRequest(TOO_MANY_AGENTS)
    created = known not in here
    here.add(known)
    return Stored(trace, created)
