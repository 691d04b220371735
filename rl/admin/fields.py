"""Form fields."""

from __future__ import annotations

from typing import Any

from django import forms

from rl.models import ApiKey


class ObjectField(forms.JSONField):
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
