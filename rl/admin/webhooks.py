"""Deliveries of webhooks."""

from __future__ import annotations

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from rl.admin.readonly import ReadOnlyAdmin
from rl.models import WebhookDelivery
from rl.operations.webhooks.delivering import send_again


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(ReadOnlyAdmin):
    list_display = ["created_at", "endpoint", "event", "occurrence", "state", "attempts", "last_status"]
    list_filter = ["state", "event", "endpoint"]
    search_fields = ["occurrence", "=endpoint", "=event"]
    search_help_text = "Words of what happened; a whole endpoint or event."
    fields = [
        "message_id",
        "endpoint",
        "event",
        "occurrence",
        "payload",
        "created_at",
        "state",
        "attempts",
        "next_attempt_at",
        "delivered_at",
        "last_status",
        "last_error",
    ]
    actions = ["send_again"]

    def has_resend_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("rl.change_webhookdelivery")

    @admin.action(description="Send the selected messages again", permissions=["resend"])
    def send_again(self, request: HttpRequest, queryset: QuerySet[WebhookDelivery]) -> None:
        """To the endpoint of the operator's file that they were for."""
        for delivery in queryset:
            send_again(delivery)
        messages.success(request, f"{len(queryset)} messages are sent with the queue's next round.")
