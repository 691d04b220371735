"""Traces."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from rl.collect.traces.records import FACTS
from rl.models import Trace
from rl.web.api.serializers.feedback import FeedbackOut
from rl.web.api.serializers.fields import (
    AnyJSONField,
    MessagesField,
    NumberField,
    ObjectField,
    ObjectListField,
    PromptField,
    StrictSerializer,
    TextField,
    WholeNumberField,
    raters_field,
)


class TraceIn(StrictSerializer):
    """One answer of an agent. ``external_id`` makes posting it again safe: the second time finds the first."""

    agent = TextField(max_length=64, help_text="Name of an agent that exists.")
    prompt = PromptField()
    response = TextField(
        allow_blank=True, default="", help_text="May be left out where there is an action or a tool call."
    )
    external_id = TextField(max_length=200, required=False, allow_null=True)
    token = TextField(
        max_length=200, required=False, help_text="From POST /api/v1/tokens/: the trace gets the id that it names."
    )
    raters = raters_field()
    model_version = TextField(max_length=64, required=False, allow_null=True, help_text="Name, such as v25.")
    session_id = TextField(max_length=200, required=False, allow_blank=True)
    details = ObjectField(required=False)
    tool_calls = ObjectListField(required=False)
    reasoning_steps = ObjectListField(required=False)
    tasks = ObjectListField(required=False)
    state = AnyJSONField(required=False, allow_null=True)
    action = AnyJSONField(required=False, allow_null=True)
    tokens_in = WholeNumberField(required=False, allow_null=True)
    tokens_out = WholeNumberField(required=False, allow_null=True)
    llm_calls = WholeNumberField(required=False, allow_null=True)
    cost = NumberField(required=False, allow_null=True, min_value=0)
    duration_ms = WholeNumberField(required=False, allow_null=True)
    occurred_at = serializers.DateTimeField(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs["response"] and attrs.get("action") is None and not attrs.get("tool_calls"):
            raise ValidationError({"response": "must not be empty, except where there is an action or a tool call"})
        return attrs


class TraceOut(serializers.ModelSerializer):
    agent = serializers.CharField(source="agent.name")
    model_version = serializers.CharField(source="model_version.name", default=None, allow_null=True)
    prompt = MessagesField()
    details = ObjectField()
    tool_calls = ObjectListField()
    reasoning_steps = ObjectListField()
    tasks = ObjectListField()
    state = AnyJSONField(allow_null=True)
    action = AnyJSONField(allow_null=True)

    class Meta:
        model = Trace
        fields = [
            "id",
            "agent",
            "external_id",
            "source",
            "session_id",
            "model_version",
            "prompt",
            "prompt_key",
            "response",
            "details",
            "tool_calls",
            "reasoning_steps",
            "tasks",
            *FACTS,
            "occurred_at",
            "created_at",
        ]
        read_only_fields = fields


class TraceStored(TraceOut):
    token = serializers.CharField(read_only=True, help_text="Lets a page rate this trace.")

    class Meta(TraceOut.Meta):
        fields = [*TraceOut.Meta.fields, "token"]
        read_only_fields = fields


class TraceWithFeedback(TraceOut):
    feedback = FeedbackOut(many=True, help_text="All events, newest first.")

    class Meta(TraceOut.Meta):
        fields = [*TraceOut.Meta.fields, "feedback"]
        read_only_fields = fields


class TraceDetailOut(TraceWithFeedback):
    feedback = FeedbackOut(many=True, help_text="The newest events; /api/v1/feedback/?trace= gives all.")
    feedback_count = serializers.IntegerField(help_text="How many events there are.")

    class Meta(TraceOut.Meta):
        fields = [*TraceWithFeedback.Meta.fields, "feedback_count"]
        read_only_fields = fields


class BatchItem(serializers.Serializer):
    """What became of one trace of a list, in the order sent."""

    status = serializers.IntegerField(help_text="201 stored, 200 was there already, else the status of the problem.")
    id = serializers.UUIDField(required=False)
    external_id = serializers.CharField(required=False, allow_null=True)
    token = serializers.CharField(required=False, help_text="Lets a page rate this trace.")
    problem = ObjectField(required=False)


class Batch(serializers.Serializer):
    results = BatchItem(many=True)
