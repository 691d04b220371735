"""What OCD's own calls share: its form of errors, its header for the key, its query parameters; and its decisions and the
feedback on them that comes later: camelCase, in and out."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from django.db.models import Count, QuerySet, Sum
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response

from rl.from_systems.ocd.figures import RAW_REWARD, decisions, has_feedback
from rl.from_systems.ocd.formulas import RATINGS
from rl.from_systems.ocd.records import LONGEST_ID, LONGEST_USER
from rl.models import Feedback, Trace
from rl.web.api.base import ApiView
from rl.web.api.pagination import size_of
from rl.web.api.problems import TooLarge, operation
from rl.web.api.serializers.fields import AnyJSONField, NameField, NumberField, ObjectField, StrictSerializer, TextField

WORDS = list(RATINGS)


class DecisionIn(serializers.Serializer):
    """Describes what ``rl.from_systems.ocd.records`` reads; other fields are kept with the decision."""

    agentType = TextField(max_length=64, required=False, help_text="The agent; needless where the key is bound to one.")
    state = AnyJSONField(help_text="What the agent saw.")
    action = AnyJSONField(help_text="What it decided.")
    id = TextField(max_length=LONGEST_ID, required=False, help_text="Your own id; makes sending it again safe.")
    itemId = TextField(required=False, allow_null=True)
    opusId = TextField(required=False, allow_null=True)
    userId = TextField(max_length=LONGEST_USER, required=False, allow_null=True)
    modelVersion = TextField(required=False, allow_null=True)
    confidence = NumberField(min_value=0, max_value=1, required=False, allow_null=True)
    reasoning = TextField(required=False, allow_null=True)
    alternativeActions = AnyJSONField(required=False, allow_null=True)
    nextState = AnyJSONField(required=False, allow_null=True)
    reward = NumberField(required=False, allow_null=True)
    rewardComponents = ObjectField(required=False, allow_null=True)
    userFeedback = serializers.ChoiceField(WORDS, required=False, allow_null=True)
    userCorrection = AnyJSONField(required=False, allow_null=True)
    feedbackAt = serializers.DateTimeField(required=False, allow_null=True)
    isTrainingData = serializers.BooleanField(required=False, allow_null=True, help_text="false: never trained on.")
    isValidationData = serializers.BooleanField(
        required=False, allow_null=True, help_text="true: held out for testing."
    )
    outcomeMetrics = ObjectField(required=False, allow_null=True)
    outcomeObservedAt = serializers.DateTimeField(required=False, allow_null=True)
    createdAt = serializers.DateTimeField(required=False, allow_null=True)


class DecisionOut(serializers.Serializer):
    id = serializers.UUIDField(help_text="The trace's id.")
    externalId = serializers.CharField(help_text="Your own id, or a hash of the decision where you gave none.")
    agentType = serializers.CharField()


class DecisionItem(serializers.Serializer):
    """What became of one decision of a list, in the order sent."""

    status = serializers.IntegerField(help_text="201 stored, 200 was there already, else the status of the problem.")
    id = serializers.UUIDField(required=False)
    externalId = serializers.CharField(required=False)
    agentType = serializers.CharField(required=False)
    problem = ObjectField(required=False)


class DecisionBatch(serializers.Serializer):
    results = DecisionItem(many=True)


class _Later(StrictSerializer):
    agentType = TextField(max_length=64, required=False, help_text="Needed where two agents have the same id.")


class DecisionFeedbackIn(_Later):
    userFeedback = serializers.ChoiceField(WORDS, required=False, allow_null=True)
    userCorrection = AnyJSONField(required=False, allow_null=True, help_text="The action that it should have been.")
    feedbackAt = serializers.DateTimeField(required=False, allow_null=True, help_text="Now if left out.")
    userId = NameField(
        max_length=LONGEST_USER,
        required=False,
        allow_null=True,
        help_text="Who says so; the decision's user if left out.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs.get("userFeedback") is None and attrs.get("userCorrection") is None:
            raise ValidationError({"userFeedback": "send userFeedback, userCorrection or both"})
        return attrs


class OcdFeedbackIn(StrictSerializer):
    feedback = serializers.ChoiceField(WORDS)
    correction = ObjectField(required=False, allow_null=True, help_text="The fields of the action that change.")


class DecisionOutcomesIn(_Later):
    outcomeMetrics = ObjectField(help_text="Metric name to number, true or false.")
    outcomeObservedAt = serializers.DateTimeField(required=False, allow_null=True, help_text="Now if left out.")


class Recorded(DecisionOut):
    recorded = serializers.IntegerField(help_text="Events that are new; none where all of it was known.")
    ignored = serializers.ListField(
        child=serializers.CharField(), help_text="What could not be used: metrics that are not numbers, and the like."
    )


MOST = 10_000
"""Decisions of one answer."""
LARGEST, MOST_EVENTS = 16_000_000, 50_000
"""Characters of them and of what was said about them, and feedback events, in one answer."""
AGENT_TYPE = OpenApiParameter("agentType", str, description="FILER, LIBRARIAN, …; every one if left out.")
LIMIT = OpenApiParameter("limit", {"type": "integer", "minimum": 1, "default": 1000}, description=f"{MOST} at most.")


class Bound(serializers.FloatField):
    def to_internal_value(self, data: Any) -> float:
        value: float = super().to_internal_value(data)
        if not math.isfinite(value):
            self.fail("invalid")
        return value


class DecisionQuery(serializers.Serializer):
    """Which decisions, as OCD's query parameters say. Without bounds a decision need not have a reward."""

    agentType = serializers.CharField(default="", help_text=AGENT_TYPE.description)
    minReward = Bound(required=False, help_text="Of the raw reward; -2 for files, else none.")
    maxReward = Bound(required=False, help_text="Of the raw reward; none if left out.")
    requireFeedback = serializers.BooleanField(
        default=False, help_text="Only decisions that a person confirmed or corrected."
    )
    requireReward = serializers.BooleanField(default=False, help_text="Only decisions with a reward.")
    limit = serializers.IntegerField(min_value=1, default=1000, help_text=LIMIT.description)


decision_call = partial(operation, tags=["decisions"])


class OcdView(ApiView):
    """Errors are problems that have OCD's ``error`` too, and ``details`` where single fields are wrong."""

    key_header = "X-Internal-Api-Key"  # OCD's cron jobs send it

    def handle_exception(self, exc: Exception) -> Response:
        response = super().handle_exception(exc)
        if isinstance(response.data, dict):
            details = {"details": response.data["errors"]} if "errors" in response.data else {}
            response.data = {**response.data, "error": response.data.get("detail", ""), **details}
        return response

    @property
    def parameters(self) -> Mapping[str, str]:
        values: Mapping[str, str] = self.request.query_params
        return values

    def agent_type(self) -> str:
        """Raises ValidationError where it is missing."""
        if not (name := self.parameters.get("agentType", "")):
            raise ValidationError({"agentType": ["is missing"]})
        return name

    def select(self, **usual: Any) -> QuerySet[Trace]:
        """The newest first. ``usual``: parameters where they are left out. Raises ValidationError, and TooLarge where there
        are too many for one answer."""
        self.refuse_unknown_parameters(*DecisionQuery().fields)
        query = DecisionQuery(data={**usual, **{name: self.parameters[name] for name in self.parameters}})
        query.is_valid(raise_exception=True)
        asked = query.validated_data
        rows = decisions(self.key, asked["agentType"]).order_by("-occurred_at", "id")
        if asked["requireFeedback"]:
            rows = rows.filter(has_feedback())
        for bound, name in (("gte", "minReward"), ("lte", "maxReward")):
            if name in asked:
                rows = rows.filter(**{f"{RAW_REWARD}__{bound}": asked[name]})
        if asked["requireReward"]:
            rows = rows.filter(**{f"{RAW_REWARD}__isnull": False})
        rows = rows[: min(asked["limit"], MOST)]
        sizes = dict(rows.values_list("pk", size_of(Trace)))
        current = Feedback.objects.filter(trace__in=list(sizes), is_current=True).order_by()
        events = current.aggregate(number=Count("pk"), size=Sum(size_of(Feedback)))
        characters = sum(sizes.values()) + (events["size"] or 0)
        if characters > LARGEST or events["number"] > MOST_EVENTS:
            what = f"{len(sizes)} decisions with {characters:,} characters and {events['number']:,} feedback events"
            raise TooLarge(
                f"{what} are too much for one answer; ask for fewer with limit, or use import and export commands"
            )
        return rows
