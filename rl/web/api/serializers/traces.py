"""Traces."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from operator import attrgetter
from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from rl.base.errors import UsageError
from rl.collect.feedback.events import normalise
from rl.collect.limits import MAX_METRIC_LENGTH, MAX_NOTES_LENGTH, MAX_RATER_LENGTH, MAX_TAG_LENGTH, MAX_TAGS
from rl.collect.traces.records import FACTS
from rl.models import Feedback, Trace
from rl.web.api.auth import DEVICE
from rl.web.api.serializers.fields import (
    AnyJSONField,
    MessagesField,
    NameField,
    NumberField,
    ObjectField,
    ObjectListField,
    PromptField,
    RatingValueField,
    ShortListField,
    StrictSerializer,
    TextField,
    TraceField,
    WholeNumberField,
    raters_field,
)

ANSWER = "The id of the trace, or the one that the answer had where it was given, such as chatcmpl-…"


def rater_field() -> NameField:
    return NameField(
        max_length=MAX_RATER_LENGTH - len(DEVICE),
        trim_whitespace=True,
        help_text=f"Who judges. Stored as '{DEVICE}…' where a publishable key was used.",
    )


def token_field(help_text: str) -> TextField:
    return TextField(max_length=200, required=False, allow_blank=True, help_text=help_text)


class FeedbackIn(StrictSerializer):
    """What all kinds have in common."""

    trace = TraceField(help_text=ANSWER)
    agent = TextField(max_length=64, required=False, help_text="Its name, where several may have an answer of that id.")
    rater = rater_field()
    tags = ShortListField(child=TextField(max_length=MAX_TAG_LENGTH), longest=MAX_TAGS, required=False)
    notes = TextField(max_length=MAX_NOTES_LENGTH, allow_blank=True, required=False)
    rated_at = serializers.DateTimeField(required=False, help_text="When the rater decided; the latest rating wins.")
    token = token_field("For the trace.")


class RatingIn(FeedbackIn):
    kind = serializers.ChoiceField(["rating"], default="rating")
    scale = serializers.ChoiceField(Feedback.Scale.choices)
    value = RatingValueField(help_text="thumb: 0 or 1; stars: 1, 2, 3, 4 or 5; score: 0 to 1.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        try:
            normalise(attrs["scale"], attrs["value"])
        except UsageError as error:
            raise serializers.ValidationError({"value": str(error)}) from error
        return attrs


class ComparisonIn(FeedbackIn):
    kind = serializers.ChoiceField(["comparison"])
    other_trace = TraceField(help_text="The right-hand answer; trace is the left-hand one.")
    choice = serializers.ChoiceField(Feedback.Choice.choices)
    other_token = token_field("For the other trace.")


class CorrectionIn(FeedbackIn):
    kind = serializers.ChoiceField(["correction"])
    text = TextField(help_text="What the answer should have been.")


class OutcomeIn(FeedbackIn):
    kind = serializers.ChoiceField(["outcome"])
    metric = TextField(max_length=MAX_METRIC_LENGTH, trim_whitespace=True)
    value = NumberField(help_text="On a scale of its own.")


FEEDBACK_IN: dict[str, type[FeedbackIn]] = {
    "rating": RatingIn,
    "comparison": ComparisonIn,
    "correction": CorrectionIn,
    "outcome": OutcomeIn,
}


class FeedbackOut(serializers.ModelSerializer):
    agent = serializers.CharField(source="agent.name")
    trace = serializers.UUIDField(source="trace_id")
    other_trace = serializers.UUIDField(source="other_trace_id", allow_null=True)
    scale = serializers.CharField(allow_blank=True, help_text="Of a rating.")
    choice = serializers.CharField(allow_blank=True, help_text="Of a comparison.")
    value = serializers.FloatField(source="raw_value", allow_null=True, help_text="As it was given.")
    normalised = serializers.FloatField(source="value", allow_null=True, help_text="A rating on 0 … 1.")
    tags = serializers.ListField(child=serializers.CharField())
    retracts = serializers.IntegerField(source="retracts_id", allow_null=True)

    class Meta:
        model = Feedback
        fields = [
            *("id", "kind", "agent", "trace", "rater", "source", "scale", "value", "normalised", "other_trace"),
            *("choice", "text", "metric", "tags", "notes", "rated_at", "created_at", "is_current", "retracts"),
        ]
        read_only_fields = fields

    def to_representation(self, instance: Feedback) -> dict[str, Any]:
        """What the fields give, in a fraction of their time: each rating is answered with it."""
        return {
            name: None if (value := read(instance)) is None else write(value) for name, read, write in self._readers
        }

    @cached_property
    def _readers(self) -> list[tuple[str, Callable[[Feedback], Any], Callable[[Any], Any]]]:
        return [
            (name, attrgetter(str(field.source)), _WRITTEN.get(type(field), lambda same: same))
            for name, field in self.fields.items()
        ]


def _in_utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


_WRITTEN: dict[type, Callable[[Any], Any]] = {serializers.UUIDField: str, serializers.DateTimeField: _in_utc}


class RetractOwn(StrictSerializer):
    """Names a rating by its trace and rater."""

    trace = TraceField(help_text=ANSWER)
    rater = rater_field()
    token = token_field("For the trace.")


class RetractById(StrictSerializer):
    rater = NameField(
        max_length=MAX_RATER_LENGTH, required=False, trim_whitespace=True, help_text="Who retracts; empty: the author."
    )


class Retracted(serializers.Serializer):
    retracted = serializers.BooleanField(help_text="False: there was nothing (any more) to retract.")


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
