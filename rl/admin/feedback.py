"""Feedback."""

from __future__ import annotations

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.safestring import SafeString

from rl.admin.markup import NOTHING, change_link, column, list_link
from rl.admin.readonly import ReadOnlyAdmin
from rl.base.errors import RatchetError
from rl.forgetting.erasing import erase_later
from rl.forgetting.forget import forget, preview
from rl.forgetting.receipts import sentences
from rl.forgetting.records import find_person
from rl.models import Feedback, Trace, TrainingSet

FORGET = "rl.delete_feedback"


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
        ("History", {"fields": ["withdrew", "withdrawn_by", "quarantine"]}),
    ]
    actions = ["forget_rater"]

    def has_forget_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(FORGET)

    @admin.action(description="Forget this rater…", permissions=["forget"])
    def forget_rater(self, request: HttpRequest, queryset: QuerySet[Feedback]) -> HttpResponse | None:
        """Shows what would be done; does it once that is confirmed."""
        raters = sorted(set(queryset.order_by().values_list("rater", flat=True)))
        if len(raters) != 1:
            messages.error(request, "Select feedback of one rater only: one person is forgotten at a time.")
            return None
        person = find_person(raters[0])
        if "confirmed" not in request.POST:
            receipt = preview(person)
            context = {
                **self.admin_site.each_context(request),
                "title": f"Forget {raters[0]}?",
                "opts": self.opts,
                "receipt": receipt,
                "sentences": sentences(receipt),
                "event": queryset.order_by("pk").first(),
                "checkbox": ACTION_CHECKBOX_NAME,
            }
            return TemplateResponse(request, "admin/rl/feedback/forget.html", context)
        try:
            receipt = forget(person, erase=erase_later)
        except RatchetError as error:
            messages.error(request, f"Nothing was deleted: {error}.")
            return None
        messages.success(request, f"The person is forgotten. {' '.join(sentences(receipt))}")
        return None

    @admin.display(description="value")
    def opinion(self, event: Feedback) -> str:
        if event.kind == Feedback.Kind.COMPARISON:
            return event.get_choice_display()
        if event.raw_value is None:
            return NOTHING
        return f"{event.raw_value:g} {event.scale or event.metric}"

    answer = column("trace", lambda event: change_link(Trace, event.trace_id, str(event.trace_id)[:8]))
    other = column("other trace", lambda event: change_link(Trace, event.other_trace_id, str(event.other_trace_id)[:8]))

    @admin.display(description="training set")
    def learned_in(self, event: Feedback) -> SafeString | str:
        if event.training_set_id is None:
            return "waits" if event.is_current else NOTHING
        return change_link(TrainingSet, event.training_set_id, str(event.training_set_id)[:8])

    withdrew = column("withdraws", lambda event: change_link(Feedback, event.retracts_id, f"event {event.retracts_id}"))

    @admin.display(description="withdrawn by")
    def withdrawn_by(self, event: Feedback) -> SafeString | str:
        if not event.retractions.exists():
            return NOTHING
        return list_link(Feedback, "retraction", retracts__id__exact=event.pk)
