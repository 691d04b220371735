"""What staff says of a queue in a form."""

from __future__ import annotations

from typing import Any

from django import forms

from rl.models import RatingQueue


class QueueForm(forms.ModelForm):
    tags = forms.CharField(required=False, help_text="Of its own, with commas between.")
    closed = forms.BooleanField(required=False, help_text="Hands out nothing more.")

    class Meta:
        model = RatingQueue
        fields = [
            "name",
            "instructions",
            "rubric",
            "order",
            "raters_per_item",
            "filters",
            "tags",
            "lock_seconds",
            "gold_share",
            "repeat_share",
        ]
        widgets = {"instructions": forms.Textarea({"rows": 3}), "filters": forms.Textarea({"rows": 4})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["tags"] = ", ".join(self.instance.tags)
        self.initial["closed"] = self.instance.closed_at is not None
        self.fields["filters"].required = False

    def clean_tags(self) -> list[str]:
        return list(dict.fromkeys(tag.strip() for tag in self.cleaned_data["tags"].split(",") if tag.strip()))

    def clean_filters(self) -> Any:
        return self.cleaned_data["filters"] or {}
