"""Its form and tags."""

from __future__ import annotations

from django import forms

TAGS = ("wrong", "incomplete", "off topic", "unclear", "too long", "unsafe")


class RatingForm(forms.Form):
    value = forms.TypedChoiceField(choices=[("1", "Good"), ("0", "Bad")], coerce=int)
    tags = forms.MultipleChoiceField(choices=[(tag, tag) for tag in TAGS], required=False)
    notes = forms.CharField(max_length=4000, required=False)

    def problem(self) -> str:
        """The first error in one line."""
        name, messages = next(iter(self.errors.items()))
        return f"{name}: {messages[0]}"
