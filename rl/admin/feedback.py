"""Feedback."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString

from rl.admin.markup import NOTHING, change_link, list_link
from rl.admin.readonly import ReadOnlyAdmin
from rl.models import Feedback, Trace, TrainingSet


@admin.register(Feedback)
class FeedbackAdmin(ReadOnlyAdmin):
    """Events are never changed here: people rate again, or take their rating back, where they gave it."""

    list_display = ["id", "created_at", "agent", "kind", "opinion", "rater", "answer", "is_current", "learned_in"]
    list_filter = ["is_current", "kind", "scale", "created_at", "agent"]
    list_select_related = ["agent"]
    search_fields = ["=rater", "notes", "=trace__external_id"]
    search_help_text = "A whole rater or external id, or words of a note."
    fieldsets = [
        (None, {"fields": ["agent", "answer", "kind", "is_current", "learned_in"]}),
        (
            "What was said",
            {"fields": ["scale", "raw_value", "value", "choice", "other", "text", "metric", "tags", "notes"]},
        ),
        ("By whom, and when", {"fields": ["rater", "user", "source", "api_key", "rated_at", "created_at"]}),
        ("History", {"fields": ["withdrew", "withdrawn_by"]}),
    ]
    readonly_fields = ["answer", "other", "learned_in", "withdrew", "withdrawn_by"]

    @admin.display(description="value")
    def opinion(self, event: Feedback) -> str:
        if event.kind == Feedback.Kind.COMPARISON:
            return event.get_choice_display()
        if event.raw_value is None:
            return NOTHING
        return f"{event.raw_value:g} {event.scale or event.metric}"

    @admin.display(description="trace")
    def answer(self, event: Feedback) -> SafeString | str:
        return change_link(Trace, event.trace_id, str(event.trace_id)[:8])

    @admin.display(description="other trace")
    def other(self, event: Feedback) -> SafeString | str:
        return change_link(Trace, event.other_trace_id, str(event.other_trace_id)[:8])

    @admin.display(description="training set")
    def learned_in(self, event: Feedback) -> SafeString | str:
        if event.training_set_id is None:
            return "waits" if event.is_current else NOTHING
        return change_link(TrainingSet, event.training_set_id, str(event.training_set_id)[:8])

    @admin.display(description="withdraws")
    def withdrew(self, event: Feedback) -> SafeString | str:
        return change_link(Feedback, event.retracts_id, f"event {event.retracts_id}")

    @admin.display(description="withdrawn by")
    def withdrawn_by(self, event: Feedback) -> SafeString | str:
        if not event.retractions.exists():
            return NOTHING
        return list_link(Feedback, "retraction", retracts__id__exact=event.pk)
