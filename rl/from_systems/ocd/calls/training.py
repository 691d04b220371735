"""OCD's calls below ``/api/training/``: which decisions there are, their rewards, their rows, how versions compare. And
what people make of a decision, as OCD's own pages say it: without a last slash, answered with the decision's row."""

import json
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from rl.collect.storable import unstorable
from rl.collect.traces.records import with_feedback
from rl.from_systems.ocd import figures, records, rows
from rl.from_systems.ocd.calls import base
from rl.from_systems.ocd.calls.decisions import FollowUp
from rl.models import ApiKey, Feedback, Trace
from rl.models.traces import HELD_OUT, SPLIT, may_be_used
from rl.scoring import stored as rewarding
from rl.web.api.auth import INGEST, READ, TRAIN, visible_to
from rl.web.api.lookups import by_external_id
from rl.web.api.pagination import row_limit
from rl.web.api.problems import BAD_BODY, BAD_CHANGE
from rl.web.api.serializers.fields import ShortListField, StrictSerializer, TextField
from rl.web.api.training import Nothing


class OcdFeedback(base.OcdView, FollowUp):
    scopes = {"PATCH": INGEST}
    serializer_class = base.OcdFeedbackIn

    @base.decision_call(
        "confirm_decision",
        "Confirm, correct or override a decision, as OCD's pages do",
        {200: OpenApiTypes.OBJECT},
        *BAD_CHANGE,
        description="`correction` names the fields of the action that change; `editedContent` is its text.",
    )
    def patch(self, request: Request, pk: str) -> Response:
        return self.judge(self.find(pk, None))

    def judge(self, trace: Trace) -> Response:
        data = self.check_body(base.OcdFeedbackIn)
        feedback = {
            "userFeedback": data["feedback"],
            "userCorrection": data.get("correction"),
            "userId": self.user_of(trace),
        }
        self.record(trace, records.user_feedback(feedback, trace.action), [])
        return Response(rows.decision_row(with_feedback(Trace.objects.filter(pk=trace.pk)).get()))


class StatusChangeFeedback(OcdFeedback):
    """A filing shows in OCD as a change of its item's status, and is judged by the id of that change."""

    @base.decision_call(
        "confirm_filing",
        "Confirm, correct or override the filing of an item, by its change of status",
        {200: OpenApiTypes.OBJECT},
        *BAD_CHANGE,
        description="The decision that was stored with this id as its `statusChangeId`, the newest where there are several; "
        "else the one with this id.",
    )
    def patch(self, request: Request, pk: str) -> Response:
        trace = None
        if not unstorable(pk):
            changed = visible_to(self.key, Trace.objects.filter(**{f"details__decision__{rows.STATUS_CHANGE}": pk}))
            changed = changed.filter(action__isnull=False).select_related("agent")
            trace = changed.order_by("-occurred_at", "id").first()
        return self.judge(trace or self.find(pk, None))


AT_ONCE, MOST_NAMED = 100, 500
"""Decisions that one call rewards at most: of those that wait, and of those that it names."""
REPORT = {200: OpenApiTypes.OBJECT}
LIST = {200: {"type": "array", "items": {"type": "object"}}}
LINES = "application/x-ndjson"


class Ids(StrictSerializer):
    decisionIds = ShortListField(child=TextField(max_length=200), longest=MOST_NAMED)


class Limited(StrictSerializer):
    limit = serializers.IntegerField(required=False, min_value=1, help_text=f"{AT_ONCE} at most, and if left out.")


class TrainingDecisions(base.OcdView):
    scopes = {"GET": READ, "POST": TRAIN}
    serializer_class = Ids

    @base.decision_call("list_decisions", "OCD's rows of decisions", LIST, 400, 404, parameters=[base.DecisionQuery])
    def get(self, request: Request) -> Response:
        return Response([rows.decision_row(trace) for trace in with_feedback(self.select())])

    @base.decision_call("reward_decisions", "Compute rewards of decisions", REPORT, *BAD_BODY)
    def post(self, request: Request) -> Response:
        ids = self.check_body(Ids)["decisionIds"]
        known = list(by_external_id(figures.decisions(self.key), ids).values_list("pk", flat=True))
        rewarding.calculate(only=known, pending=False)
        traces = [trace for trace in Trace.objects.filter(pk__in=known) if rows.raw_reward(trace) is not None]
        document = [
            {"id": trace.external_id, "reward": rows.raw_reward(trace), "components": rows.components_of(trace)}
            for trace in traces
        ]
        return Response({"updated": len(document), "decisions": document})


class PendingRewards(base.OcdView):
    """Unlike Ratchet's own call, which ends with a slash and leaves it to the queue, it computes before it answers."""

    scopes = {"GET": READ, "POST": TRAIN}
    serializer_class = Nothing

    @base.decision_call("count_pending_decisions", "Decisions whose reward waits", REPORT)
    def get(self, request: Request) -> Response:
        count = _waiting(self.key).count()
        return Response({"pendingRewards": count, "message": f"{count} decisions wait for their reward"})

    @base.decision_call("reward_pending_decisions", "Compute rewards that wait", REPORT, *BAD_BODY)
    def post(self, request: Request) -> Response:
        self.check_body(Nothing)
        done = _reward(_waiting(self.key), AT_ONCE)
        message = f"{done['rewardsCalculated']} of {done['processed']} decisions have their reward"
        return Response(
            {"success": True, "processed": done["rewardsCalculated"], "errors": done["errors"], "message": message}
        )


class Outcomes(base.OcdView):
    """Outcomes come in by ``/api/decisions/{id}/outcomes/``; these calls have their rewards computed."""

    scopes = {"GET": READ, "POST": TRAIN}
    serializer_class: type[StrictSerializer] = Limited
    count_name = "pendingCount"

    @base.decision_call("count_pending_outcomes", "Decisions with new outcomes", REPORT)
    def get(self, request: Request) -> Response:
        return Response({self.count_name: _with_outcomes(_waiting(self.key)).count()})

    @base.decision_call("reward_outcomes", "Reward decisions with new outcomes", REPORT, *BAD_BODY)
    def post(self, request: Request) -> Response:
        limit = self.check_body(Limited).get("limit", AT_ONCE)
        return Response(self.answer(_reward(_with_outcomes(_waiting(self.key)), min(limit, AT_ONCE))))

    def answer(self, done: dict[str, Any]) -> dict[str, Any]:
        return {"success": True, **done}


class TrackOutcomes(Outcomes):
    serializer_class = Nothing
    count_name = "pendingOutcomes"

    @base.decision_call("count_tracked_outcomes", "Decisions with new outcomes", REPORT)
    def get(self, request: Request) -> Response:
        return super().get(request)

    @base.decision_call(
        "reward_tracked_outcomes", "Reward decisions with new outcomes", REPORT, *BAD_BODY, parameters=[base.LIMIT]
    )
    def post(self, request: Request) -> Response:
        self.check_body(Nothing)
        self.refuse_unknown_parameters("limit")
        limit = row_limit(request, AT_ONCE, AT_ONCE)
        return Response(self.answer(_reward(_with_outcomes(_waiting(self.key)), limit)))

    def answer(self, done: dict[str, Any]) -> dict[str, Any]:
        return {**super().answer(done), "message": f"{done['rewardsCalculated']} decisions have their reward"}


class DecisionStats(base.OcdView):
    scopes = {"GET": READ}

    @base.decision_call("decision_stats", "OCD's figures", REPORT, 400, parameters=[base.AGENT_TYPE])
    def get(self, request: Request) -> Response:
        self.refuse_unknown_parameters("agentType")
        return Response(figures.training_stats(self.key, self.parameters.get("agentType", "")))


class CompareVersions(base.OcdView):
    scopes = {"GET": READ}

    @base.decision_call("compare_decisions", "Versions side by side", REPORT, 400, parameters=[base.AGENT_TYPE])
    def get(self, request: Request) -> Response:
        self.refuse_unknown_parameters("agentType")
        return Response(figures.compare_versions(self.key, self.agent_type()))


class ExportMessages(base.OcdView):
    scopes = {"GET": READ}

    @base.decision_call("export_decisions", "Decisions as messages", LIST, 400, parameters=[base.DecisionQuery])
    def get(self, request: Request) -> Response:
        return Response([rows.message_row(trace) for trace in _for_training(self.select())])


class ExportFile(base.OcdView):
    scopes = {"GET": READ}

    @base.decision_call(
        "export_decision_file",
        "Training rows as a file",
        {(200, LINES): OpenApiTypes.STR},
        400,
        parameters=[base.DecisionQuery],
    )
    def get(self, request: Request) -> HttpResponse:
        agent = self.agent_type().lower() or "decisions"
        selected = self.select(minReward=-2, requireReward=True)
        name = "".join(character for character in agent if character.isalnum() or character in "-_")[:64]
        traces = _for_training(selected)
        lines = [json.dumps(rows.training_row(trace), ensure_ascii=False) + "\n" for trace in traces]
        response = HttpResponse("".join(lines), content_type=LINES)
        response["Content-Disposition"] = f'attachment; filename="{name}-training.jsonl"'
        return response


def _for_training(selected: QuerySet[Trace]) -> QuerySet[Trace]:
    """Without what is never to be trained on, or held out."""
    usable = Trace.objects.filter(may_be_used(), pk__in=list(selected.values_list("pk", flat=True)))
    held_out = usable.filter(**{f"details__{SPLIT}": HELD_OUT}).values_list("pk", flat=True)
    return with_feedback(usable.exclude(pk__in=list(held_out)).order_by("-occurred_at", "id"))


def _waiting(key: ApiKey) -> QuerySet[Trace]:
    return figures.decisions(key).filter(reward_pending=True).order_by("created_at", "id")


def _with_outcomes(traces: QuerySet[Trace]) -> QuerySet[Trace]:
    events = Feedback.objects.filter(trace=OuterRef("pk"), kind=Feedback.Kind.OUTCOME, is_current=True)
    return traces.filter(Exists(events.order_by()))


def _reward(traces: QuerySet[Trace], limit: int) -> dict[str, Any]:
    pks = list(traces.values_list("pk", flat=True)[:limit])
    report = rewarding.calculate(only=pks)
    return {
        "processed": len(pks),
        "updated": report.rewarded + report.nothing_applies,
        "rewardsCalculated": report.rewarded,
        "errors": report.broken,
    }
