"""Traces."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from rl.admin.markup import change_link, column, list_link, text_block, value_table
from rl.admin.readonly import ReadOnlyAdmin
from rl.models import Feedback, ModelVersion, QuestionStart, Trace, WaitingRating

SHOWN = 80
"""Characters of a question and of an answer in the list."""


@admin.register(Trace)
class TraceAdmin(ReadOnlyAdmin):
    list_display = ["short_id", "agent", "question_start", "answer_start", "version", "source", "created_at"]
    list_filter = ["created_at", "agent"]
    list_select_related = ["agent", "model_version"]
    search_fields = ["=external_id", "=session_id", "id__startswith"]
    search_help_text = "The start of an id, a whole external id or session id. Words are looked for on the page Traces."
    fieldsets = [
        (None, {"fields": ["id", "agent", "version", "feedback_link", "conversation", "answer", "extras"]}),
        (
            "Where it came from",
            {"fields": ["source", "external_id", "session_id", "prompt_key", "occurred_at", "created_at"]},
        ),
        ("What happened", {"fields": ["tool_calls", "reasoning_steps", "tasks", "state", "action"]}),
        ("Rewards", {"fields": ["reward", "components", "rewarded_at", "reward_pending"]}),
        ("What it cost", {"fields": ["tokens_in", "tokens_out", "llm_calls", "cost", "duration_ms"]}),
    ]

    short_id = column("id", lambda trace: str(trace.pk)[:8])
    question_start = column("question", lambda trace: (trace.question_text or "")[:SHOWN])
    answer_start = column("answer", lambda trace: trace.answer_text)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Trace]:
        """For the list, the beginnings of texts only."""
        rows = super().get_queryset(request)
        if request.resolver_match and request.resolver_match.url_name != "rl_trace_changelist":
            return rows
        rows = rows.annotate(question_text=QuestionStart("prompt"), answer_text=Left("response", SHOWN))
        return rows.only("agent", "model_version", "source", "created_at")

    @admin.display(description="model version")
    def version(self, trace: Trace) -> SafeString | str:
        return change_link(ModelVersion, trace.model_version_id, trace.model_version and trace.model_version.name)

    @admin.display(description="feedback")
    def feedback_link(self, trace: Trace) -> SafeString:
        return list_link(Feedback, f"{trace.feedback.count()} recorded", trace__id__exact=trace.pk)

    @admin.display(description="prompt")
    def conversation(self, trace: Trace) -> SafeString:
        lines = ((message["role"], text_block(message["content"])) for message in trace.prompt)
        return format_html_join("", '<div class="message"><b>{}</b>{}</div>', lines)

    answer = column("response", lambda trace: text_block(trace.response))
    extras = column("details", lambda trace: value_table(trace.details))
    components = column("by component", lambda trace: value_table(trace.rewards))


@admin.register(WaitingRating)
class WaitingRatingAdmin(ReadOnlyAdmin):
    """Ratings of answers that were not stored yet."""

    list_display = ["entry_id", "agent", "rater", "scale", "value", "rated_at"]
    list_filter = ["agent"]
    list_select_related = ["agent"]
    search_fields = ["=entry_id", "=rater"]
    fields = [
        *("agent", "entry_id", "by_id", "rater", "api_key", "scale", "value"),
        *("tags", "notes", "rated_at", "created_at", "updated_at"),
    ]
