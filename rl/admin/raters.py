"""Rating queues, invitations, claims, gold items, pairs of answers, quarantined feedback: raw records."""

from __future__ import annotations

from django.contrib import admin

from rl.admin.readonly import ReadOnlyAdmin
from rl.models import AnswerPair, Claim, GoldItem, Invite, Quarantine, RatingQueue


@admin.register(RatingQueue)
class RatingQueueAdmin(ReadOnlyAdmin):
    list_display = ["name", "agent", "rubric", "order", "raters_per_item", "created_at", "closed_at"]
    list_filter = ["rubric", "agent"]
    list_select_related = ["agent"]
    search_fields = ["name", "agent__name"]


@admin.register(GoldItem)
class GoldItemAdmin(ReadOnlyAdmin):
    list_display = ["id", "queue", "value", "choice", "created_by", "created_at"]
    list_select_related = ["queue"]
    search_fields = ["=id", "queue__name"]
    fields = ["queue", "trace_id", "other_trace_id", "value", "choice", "created_by", "created_at"]


@admin.register(Invite)
class InviteAdmin(ReadOnlyAdmin):
    list_display = ["name", "queue", "created_by", "created_at", "expires_at", "revoked_at", "last_used_at"]
    list_select_related = ["queue"]
    search_fields = ["name", "queue__name"]


@admin.register(Claim)
class ClaimAdmin(ReadOnlyAdmin):
    list_display = ["id", "queue", "rater", "purpose", "state", "decided_at", "expires_at"]
    list_filter = ["state", "purpose"]
    list_select_related = ["queue"]
    search_fields = ["=id", "=rater", "queue__name"]
    exclude = ["trace", "other_trace", "pair", "feedback"]
    readonly_fields = ["trace_id", "other_trace_id", "pair_id", "feedback_id"]


@admin.register(AnswerPair)
class AnswerPairAdmin(ReadOnlyAdmin):
    list_display = ["id", "agent", "origin", "is_disputed", "created_at"]
    list_filter = ["origin", "is_disputed", "agent"]
    list_select_related = ["agent"]
    search_fields = ["id__startswith", "agent__name"]
    fields = ["id", "agent", "left_id", "right_id", "origin", "drawn_for", "is_disputed", "created_at"]


@admin.register(Quarantine)
class QuarantineAdmin(ReadOnlyAdmin):
    list_display = ["rater", "agent", "reason", "created_at", "released_at", "released_by"]
    list_filter = ["agent"]
    list_select_related = ["agent"]
    search_fields = ["=rater", "reason"]
