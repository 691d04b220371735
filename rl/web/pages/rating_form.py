"""What a person says of an answer in a form: a thumb, tags, a note."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from rl.base.errors import UsageError
from rl.collect.feedback.write import Rated, rate
from rl.collect.traces.rows import run_id
from rl.models import Agent, Feedback, Trace
from rl.serving.gateway import pending
from rl.web.drawings import tags_of


class RatingForm(forms.Form):
    value = forms.TypedChoiceField(choices=[("1", "Good"), ("0", "Bad")], coerce=int)
    tags = forms.MultipleChoiceField(required=False)
    notes = forms.CharField(max_length=4000, required=False)

    def __init__(self, posted: Any, tags: Sequence[str]) -> None:
        super().__init__(posted)
        field = self.fields["tags"]
        assert isinstance(field, forms.MultipleChoiceField)  # noqa: S101  declared above
        field.choices = [(tag, tag) for tag in tags]

    def problem(self) -> str:
        """The first error in one line."""
        name, messages = next(iter(self.errors.items()))
        return f"{name}: {messages[0]}"


def rate_as_posted(trace: Trace, posted: Any, **by: Any) -> Rated:
    """``posted``: a QueryDict; ``by``: rater, source and user, as ``rate`` takes them. Raises UsageError."""
    form = RatingForm(posted, tags_of(trace))
    if not form.is_valid():
        raise UsageError(form.problem())
    fields = form.cleaned_data
    return rate(
        trace, scale=Feedback.Scale.THUMB, value=fields["value"], tags=fields["tags"], notes=fields["notes"], **by
    )


def posted_trace(agent: Agent, posted: Mapping[str, Any]) -> Trace:
    """The one that the form names; an answer that the gateway gave a moment ago too. Raises UsageError."""
    try:
        pk = uuid.UUID(posted.get("trace", ""))
    except ValueError:
        raise UsageError("trace: not an id") from None
    return find_trace(agent, pk)


def find_trace(agent: Agent, pk: uuid.UUID) -> Trace:
    """An answer that the gateway gave a moment ago too. Raises UsageError."""
    trace = Trace.objects.filter(pk=pk, agent=agent).first()
    if trace is None:
        pending.deliver_named([str(pk)])
        trace = agent.traces.filter(pk=run_id(pk)).first()
    if trace is None:
        raise UsageError(f"agent {agent} has no trace {pk}")
    return trace
