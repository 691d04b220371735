"""The settings of a queue as a form: plain words over each field; which answers, a field for each filter."""

import csv
from collections.abc import Iterator, Sequence
from typing import Any, Final

from django import forms
from django.utils.translation import gettext_lazy as _

from rl.models import RatingQueue
from rl.queues.filters import LONGEST

_LISTS: Final = ("versions", "with_tags", "sources")
"""Fields of several texts, with commas between."""
_FILTERS: Final = {
    **{name: name for name in ("rated", "versions", "search", "sources", "details")},
    "since": "from",
    "until": "to",
    "with_tags": "tags",
}
"""Field to the filter's name in the queue."""
_SHARES: Final = ("gold_share", "repeat_share")
GROUPS: Final = (
    (_("What people are asked"), ("name", "instructions", "rubric", "tags")),
    (_("Which answers"), ("rated", "search", "versions", "since", "until", "order", "with_tags", "sources", "details")),
    (_("Who answers, and how well"), ("raters_per_item", "lock_seconds", "gold_share", "repeat_share", "closed")),
)


class _Details(forms.JSONField):
    def prepare_value(self, value: Any) -> Any:
        """Nothing is an empty field, and not ``null``."""
        return "" if value is None else super().prepare_value(value)


def _percent(label: Any, help_text: Any) -> forms.FloatField:
    return forms.FloatField(label=label, help_text=help_text, min_value=0, max_value=50)


def _texts(label: Any, help_text: Any) -> forms.CharField:
    return forms.CharField(label=label, help_text=help_text, required=False)


class QueueForm(forms.ModelForm):
    tags = _texts(_("Words to choose from"), _("What may be said of an answer beside it; with commas between."))
    rated = forms.TypedChoiceField(
        label=_("Rated before"),
        required=False,
        choices=[("", _("whether or not")), ("no", _("by nobody yet")), ("yes", _("by somebody"))],
        coerce=lambda value: value == "yes",
        empty_value=None,
    )
    search = forms.CharField(label=_("With these words"), required=False, max_length=LONGEST)
    versions = _texts(_("Given by these versions"), _("With commas between; “base” is the base model. Empty: all."))
    since = forms.DateField(label=_("From day"), required=False, widget=forms.DateInput({"type": "date"}, "%Y-%m-%d"))
    until = forms.DateField(label=_("To day"), required=False, widget=forms.DateInput({"type": "date"}, "%Y-%m-%d"))
    with_tags = _texts(_("Tagged by a rater with"), _("One of these, with commas between."))
    sources = _texts(_("That came by"), _("Such as gateway or api, with commas between."))
    details = _Details(
        label=_("With these details"),
        required=False,
        widget=forms.Textarea({"rows": 2}),
        help_text=_('What your app stored with the answer, such as {"category": "energy"}.'),
    )
    gold_share = _percent(_("Test questions, in percent"), _("Items whose right answer is known; they measure raters."))
    repeat_share = _percent(_("Asked twice, in percent"), _("Items that the same person decided before."))
    closed = forms.BooleanField(label=_("Closed"), required=False, help_text=_("Hands out nothing more."))

    class Meta:
        model = RatingQueue
        fields = ["name", "instructions", "rubric", "order", "raters_per_item", "tags", "lock_seconds", *_SHARES]
        labels = {
            "name": _("Name"),
            "instructions": _("What a good answer is"),
            "rubric": _("They say"),
            "order": _("In which order"),
            "raters_per_item": _("People for each answer"),
            "lock_seconds": _("Seconds that an answer waits for one person"),
        }
        help_texts = {
            "instructions": _("Stands beside each answer; guests read it before they begin."),
            "raters_per_item": _("Empty: everybody rates every answer."),
            "lock_seconds": _("Then somebody else may get it; whoever is at work keeps it."),
        }
        widgets = {"instructions": forms.Textarea({"rows": 3})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        row, stored = self.instance, self.instance.filters
        self.initial.update(
            {name: stored[key] for name, key in _FILTERS.items() if key in stored}
            | {name: _join(stored.get(_FILTERS[name], [])) for name in _LISTS}
            | {name: f"{100 * getattr(row, name):g}" for name in _SHARES}
            | {"rated": {None: "", True: "yes", False: "no"}[stored.get("rated")]}
            | {"tags": _join(row.tags), "closed": row.closed_at is not None}
        )

    def groups(self) -> Iterator[tuple[Any, list[forms.BoundField]]]:
        """Title, and its fields."""
        return ((title, [self[name] for name in names]) for title, names in GROUPS)

    def clean_tags(self) -> list[str]:
        return _split(self.cleaned_data["tags"])

    def clean_gold_share(self) -> float:
        return float(self.cleaned_data["gold_share"]) / 100

    def clean_repeat_share(self) -> float:
        return float(self.cleaned_data["repeat_share"]) / 100

    def clean(self) -> dict[str, Any]:
        """Whoever stores the queue checks the filters."""
        given: dict[str, Any] = {name: self.cleaned_data.get(name) for name in _FILTERS}
        given |= {name: _split(given[name] or "") for name in _LISTS}
        given |= {name: given[name].isoformat() for name in ("since", "until") if given[name]}
        empty: tuple[Any, ...] = (None, "", [], {})
        self.instance.filters = {_FILTERS[name]: value for name, value in given.items() if value not in empty}
        return self.cleaned_data


def _split(text: str) -> list[str]:
    """Reads what stands between commas; quotation marks keep a comma within a text."""
    parts = (part.strip() for row in csv.reader([text], skipinitialspace=True) for part in row)
    return list(dict.fromkeys(part for part in parts if part))


def _join(texts: Sequence[str]) -> str:
    quoted = {text: '"' + text.replace('"', '""') + '"' for text in texts if "," in text or '"' in text}
    return ", ".join(quoted.get(text, text) for text in texts)
