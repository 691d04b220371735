"""API keys."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from typing import Any, Final

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse
from django.urls import URLPattern, re_path
from django.utils.html import format_html
from django.utils.safestring import SafeString

from rl import registered
from rl.admin.markup import ReadOnlyAdmin, column, value_table
from rl.base.errors import BadFile, UsageError
from rl.base.names import unknown_name
from rl.config import authority
from rl.config.embedded_models import EMBEDDED_MODELS
from rl.config.reward_weights import decision_weights
from rl.dataset_builder.wording import Part, template_names
from rl.evaluation.judges.servers import servers
from rl.models import Agent, ApiKey, AuditEvent, usual_scopes
from rl.models.validators import validate_overrides
from rl.operations import audit
from rl.operations.keys import revoke
from rl.rewards import REWARDS, default_weights


class ObjectFormField(forms.JSONField):
    """JSON; an empty box is an empty object, not null, which the column refuses."""

    def to_python(self, value: Any) -> Any:
        return super().to_python(value) or {}


class ScopesField(forms.MultipleChoiceField):
    """Boxes to tick."""

    widget = forms.CheckboxSelectMultiple

    def __init__(self, **options: Any) -> None:
        super().__init__(choices=ApiKey.Scope.choices, **options)


class LinesField(forms.CharField):
    """A list of texts, written one a line."""

    widget = forms.Textarea(attrs={"rows": 4, "cols": 60})

    def to_python(self, value: Any) -> Any:
        return [line.strip() for line in (value or "").splitlines() if line.strip()]

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        return (initial or []) != self.to_python(data)


class BaseModelField(forms.ChoiceField):
    """One that the operator registered; or the one that the agent has, by whatever way it came to it."""

    def __init__(self, own: str) -> None:
        labels = {name: f"{name} ({label})" for name, label in EMBEDDED_MODELS.items()}
        labels |= {value: f"{name} ({value})" for name, value in settings.BASE_MODELS.items()}
        super().__init__(
            choices=[*({own: own} | labels).items()], help_text="The operator registers more with BASE_MODELS."
        )


class JudgeField(forms.ChoiceField):
    """One that the operator registered; or the one that the agent has, whose entry may be gone."""

    def __init__(self, own: str) -> None:
        names = {own: own, "": "learns from the users' ratings"}
        try:
            names |= {name: f"{name} ({server.model})" for name, server in servers().items()}
            help_text = "The operator registers others with JUDGES_FILE."
        except BadFile as error:
            help_text = f"JUDGES_FILE: {error}"
        super().__init__(choices=[*names.items()], required=False, help_text=help_text)


class TemplateField(forms.ChoiceField):
    """A template that there is; or the one that the agent has, whose file may be gone."""

    def __init__(self, own: str, part: Part) -> None:
        names = {own: own, "": "as Ratchet does", **{name: name for name in template_names(part)}}
        help_text = "The operator writes others as files of PROMPT_TEMPLATES_DIR."
        super().__init__(choices=[*names.items()], required=False, help_text=help_text)


class AgentForm(forms.ModelForm):
    class Meta:
        model = Agent
        fields = "__all__"  # noqa: DJ007  the admin's fieldsets name them

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if "base_model" in self.fields:
            self.fields["base_model"] = BaseModelField(self.instance.base_model)
        if "judge" in self.fields:
            self.fields["judge"] = JudgeField(self.instance.judge)
        parts: tuple[Part, ...] = ("prompt", "answer")
        for name, part in ((f"{part}_template", part) for part in parts):
            if name in self.fields:
                self.fields[name] = TemplateField(getattr(self.instance, name), part)

    def clean_training_overrides(self) -> dict[str, Any]:
        overrides: dict[str, Any] = self.cleaned_data["training_overrides"]
        validate_overrides(overrides)
        try:
            registered.require(authority.choices(overrides))
        except UsageError as error:
            raise forms.ValidationError(str(error)) from error
        return overrides

    def clean_reward_weights(self) -> dict[str, Any]:
        weights: dict[str, Any] = self.cleaned_data["reward_weights"]
        known = [*REWARDS, *settings.CUSTOM_REWARDS]
        if isinstance(weights, dict) and (unknown := sorted(set(weights) - set(known))):
            raise forms.ValidationError(unknown_name("reward", unknown[0], known))
        return weights


def reward_defaults() -> SafeString | str:
    """A custom reward's default is in its class, which a page need not load."""
    custom = dict.fromkeys(settings.CUSTOM_REWARDS, "as its class says")
    return value_table({**default_weights(), **custom})


def decision_defaults(agent: Agent) -> SafeString | str:
    """The weights for the agent type that the agent's name says, which decisions without an agentType get."""
    table = decision_weights(agent.name)
    return value_table({f"{scale}: {name}": weight for scale, part in table.items() for name, weight in part.items()})


COLUMNS: Final = ("at", "actor", "action", "target", "agent", "address", "request_id", "details")
_ROWS_AT_ONCE = 1000
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a cell begins that spreadsheets would compute; https://owasp.org/www-community/attacks/CSV_Injection."""


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    list_display = ["at", "actor", "action", "target", "agent", "address"]
    list_filter = ["action", "at"]
    search_fields = ["actor", "target", "agent", "=address", "=request_id"]
    search_help_text = "Words of who, what or which agent; a whole address or request id."
    fields = COLUMNS

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.export)
        return [re_path(r"^export\.(csv|jsonl)\Z", view, name="rl_auditevent_export"), *super().get_urls()]

    def export(self, request: HttpRequest, form: str) -> StreamingHttpResponse:
        """What the list shows, with its filters and its search, all pages of it. That it was exported is an event too."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        events = self.get_changelist_instance(request).get_queryset(request)
        audit.record(audit.Action.EXPORTED, "audit log", form=form, query=request.GET.urlencode()[:500])
        lines, media_type = FORMATS[form]
        name = f'attachment; filename="audit.{form}"'
        return StreamingHttpResponse(
            lines(events), content_type=f"{media_type}; charset=utf-8", headers={"Content-Disposition": name}
        )


class _Line:
    """What csv writes into: it gives each line back."""

    def write(self, text: str) -> str:
        return text


def csv_lines(events: QuerySet[AuditEvent]) -> Iterator[str]:
    """With a heading. A cell that could be a formula begins with an apostrophe."""
    writer: Any = csv.writer(_Line())
    yield writer.writerow(COLUMNS)
    for values in _documents(events):
        details = json.dumps(values["details"], ensure_ascii=False) if values["details"] else ""
        cells = map(str, {**values, "details": details}.values())
        yield writer.writerow([f"'{cell}" if cell.startswith(_FORMULA) else cell for cell in cells])


def json_lines(events: QuerySet[AuditEvent]) -> Iterator[str]:
    return (json.dumps(values, ensure_ascii=False) + "\n" for values in _documents(events))


FORMATS: Final = {"csv": (csv_lines, "text/csv"), "jsonl": (json_lines, "application/jsonl")}


def _documents(events: QuerySet[AuditEvent]) -> Iterator[dict[str, Any]]:
    for row in events.values(*COLUMNS).iterator(chunk_size=_ROWS_AT_ONCE):
        yield {**row, "at": row["at"].isoformat()}


class ApiKeyForm(forms.ModelForm):
    allowed_origins = LinesField(
        required=False, help_text="Publishable keys work from these pages only. One a line, like https://shop.example"
    )
    scopes = ScopesField(
        required=False,
        initial=usual_scopes,
        help_text="What the key may do. A publishable key may only rate, and with chat ask its agent.",
    )

    class Meta:
        model = ApiKey
        fields = ["name", "kind", "agent", "allowed_origins", "needs_tokens", "scopes", "expires_at"]


@admin.register(ApiKey)
class ApiKeyAdmin(admin.ModelAdmin):
    """The digest is shown nowhere, and the key itself once, right after it was made."""

    form = ApiKeyForm
    list_display = ["name", "kind", "may", "start", "agent", "created_at", "last_used_at", "expires_at", "revoked_at"]
    list_filter = ["kind", ("revoked_at", admin.EmptyFieldListFilter), "agent"]
    list_select_related = ["agent"]
    search_fields = ["name", "^start"]
    show_full_result_count = False
    actions = ["revoke"]

    def get_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        shown = ["start", "created_at", "last_used_at", "revoked_at"] if obj else []
        return ["name", "kind", "agent", "scopes", "allowed_origins", "needs_tokens", "expires_at", *shown]

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> list[str]:
        """What a key may do is fixed when it is made; only its name, its origins and its need for tokens change later."""
        shown = ["kind", "agent", "scopes", "expires_at", "start", "created_at", "last_used_at", "revoked_at"]
        return shown if obj else []

    may = column(
        "may", lambda key: ", ".join([*(["rate"] if key.kind == ApiKey.Kind.PUBLISHABLE else []), *key.scopes])
    )

    def save_model(self, request: HttpRequest, obj: ApiKey, form: forms.ModelForm[Any], change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        key = obj.issue()
        text = format_html('Copy the key now, it is not shown again: <code class="new-key">{}</code>', key)
        messages.success(request, text)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A revoked row still tells who sent what."""
        return False

    @admin.action(description="Revoke the selected keys", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        keys = list(queryset.filter(revoked_at__isnull=True))
        for key in keys:
            revoke(key)
            self.log_change(request, key, "Revoked.")
        messages.success(request, f"{len(keys)} keys revoked.")
