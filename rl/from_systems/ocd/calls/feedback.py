"""What people make of a decision, as OCD's own pages say it: without a last slash, answered with the decision's row."""

from __future__ import annotations

from drf_spectacular.types import OpenApiTypes
from rest_framework.request import Request
from rest_framework.response import Response

from rl.collect.storable import unstorable
from rl.collect.traces.records import with_feedback
from rl.from_systems.ocd import records
from rl.from_systems.ocd.calls.base import OcdView
from rl.from_systems.ocd.calls.decisions import FollowUp
from rl.from_systems.ocd.calls.serializers import OcdFeedbackIn
from rl.from_systems.ocd.rows import STATUS_CHANGE, decision_row
from rl.models import Trace
from rl.web.api.auth import INGEST, visible_to
from rl.web.api.problems import BAD_BODY, operation


class OcdFeedback(OcdView, FollowUp):
    scopes = {"PATCH": INGEST}
    serializer_class = OcdFeedbackIn

    @operation(
        "confirm_decision",
        "Confirm, correct or override a decision, as OCD's pages do",
        {200: OpenApiTypes.OBJECT},
        *BAD_BODY,
        404,
        409,
        tags=["decisions"],
        description="`correction` names the fields of the action that change; `editedContent` is its text.",
    )
    def patch(self, request: Request, pk: str) -> Response:
        return self.judge(self.find(pk, None))

    def judge(self, trace: Trace) -> Response:
        data = self.check_body(OcdFeedbackIn)
        feedback = {
            "userFeedback": data["feedback"],
            "userCorrection": data.get("correction"),
            "userId": self.user_of(trace),
        }
        self.record(trace, records.user_feedback(feedback, trace.action), [])
        return Response(decision_row(with_feedback(Trace.objects.filter(pk=trace.pk)).get()))


class StatusChangeFeedback(OcdFeedback):
    """A filing shows in OCD as a change of its item's status, and is judged by the id of that change."""

    @operation(
        "confirm_filing",
        "Confirm, correct or override the filing of an item, by its change of status",
        {200: OpenApiTypes.OBJECT},
        *BAD_BODY,
        404,
        409,
        tags=["decisions"],
        description="The decision that was stored with this id as its `statusChangeId`, the newest where there are several; "
        "else the one with this id.",
    )
    def patch(self, request: Request, pk: str) -> Response:
        return self.judge(self._of_change(pk) or self.find(pk, None))

    def _of_change(self, own_id: str) -> Trace | None:
        if unstorable(own_id):
            return None
        rows = visible_to(self.key, Trace.objects.filter(**{f"details__decision__{STATUS_CHANGE}": own_id}))
        rows = rows.filter(action__isnull=False).select_related("agent")
        return rows.order_by("-occurred_at", "id").first()
