"""OCD's decisions and the feedback on them that comes later: camelCase, in and out."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from rl.from_systems.ocd.records import LONGEST_ID, LONGEST_USER
from rl.from_systems.ocd.words import RATINGS
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
