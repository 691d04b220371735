from __future__ import annotations

from typing import Any

from django import forms


class ObjectField(forms.JSONField):
    """JSON; an empty box is an empty object, not null, which the column refuses."""

    def to_python(self, value: Any) -> Any:
        return super().to_python(value) or {}


class LinesField(forms.CharField):
    """A list of texts, written one a line."""

    widget = forms.Textarea(attrs={"rows": 4, "cols": 60})

    def to_python(self, value: Any) -> Any:
        return [line.strip() for line in (value or "").splitlines() if line.strip()]

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        return (initial or []) != self.to_python(data)
