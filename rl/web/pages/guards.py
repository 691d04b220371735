"""Pages and calls for people who are signed in, and what they share. No cache keeps them."""

import uuid
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from django import forms
from django.contrib.auth.decorators import login_required, permission_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from rl.base.errors import RatchetError, UsageError
from rl.collect.feedback.write import Rated, rate
from rl.models import Agent, Feedback, Trace
from rl.web.api.lookups import by_id
from rl.web.rating_filters import tags_of


class RatingForm(forms.Form):
    value = forms.TypedChoiceField(choices=[("1", "Good"), ("0", "Bad")], coerce=int)
    tags = forms.MultipleChoiceField(required=False)
    notes = forms.CharField(max_length=4000, required=False)


def rate_as_posted(trace: Trace, posted: Any, **by: Any) -> Rated:
    """``posted``: a QueryDict; ``by``: rater, source and user, as ``rate`` takes them. Raises UsageError."""
    form = RatingForm(posted)
    form.fields["tags"].choices = [(tag, tag) for tag in tags_of(trace)]  # type: ignore[attr-defined]
    if not form.is_valid():
        name, messages = next(iter(form.errors.items()))
        raise UsageError(f"{name}: {messages[0]}")
    return rate(trace, scale=Feedback.Scale.THUMB, **form.cleaned_data, **by)


def posted_trace(agent: Agent, posted: Mapping[str, Any]) -> Trace:
    """The one that the form names; an answer that the gateway gave a moment ago too. Raises UsageError."""
    try:
        pk = uuid.UUID(posted.get("trace", ""))
    except ValueError:
        raise UsageError("trace: not an id") from None
    return find_trace(agent, pk)


def find_trace(agent: Agent, pk: uuid.UUID) -> Trace:
    """An answer that the gateway gave a moment ago too. Raises UsageError."""
    if trace := by_id(agent.traces.all(), pk):
        return trace
    raise UsageError(f"agent {agent} has no trace {pk}")


View = Callable[..., HttpResponseBase]


def for_users(view: View) -> View:
    """Takes GET and HEAD."""
    return require_safe(never_cache(login_required(view)))


def for_users_who_post(view: View) -> View:
    """Takes POST too, of the page's own forms."""
    return require_http_methods(["GET", "HEAD", "POST"])(never_cache(login_required(view)))


def require_staff(request: HttpRequest, permission: str, refusal: str) -> None:
    """Raises PermissionDenied, with these words, but for staff who have it."""
    if not (request.user.is_staff and request.user.has_perm(permission)):
        raise PermissionDenied(gettext(refusal))


def show_problem(request: HttpRequest, page: str, back: str, problem: Exception) -> HttpResponse:
    """What could not be done, and the way ``back``."""
    context = {"page": page, "back": back, "problem": str(problem)}
    return render(request, "rl/rate_problem.html", context, status=400)


def rater_of(username: str) -> str:
    """As feedback names him."""
    return f"user:{username}"


def signed_in(request: HttpRequest) -> User:
    """For views behind ``login_required``."""
    assert isinstance(request.user, User)  # noqa: S101
    return request.user


def said_by(user: User, source: str) -> dict[str, Any]:
    """What his feedback says beside the opinion itself."""
    return {"rater": rater_of(user.get_username()), "source": source, "user": user}


def find_agent(name: str) -> Agent | None:
    """In whatever case; None without a name."""
    return Agent.objects.filter(name__iexact=name).first() if name else None


def for_talkers(view: View) -> View:
    """Signed in, and may rate."""
    return never_cache(login_required(permission_required("rl.add_feedback", raise_exception=True)(view)))


def talk_call(view: Callable[..., HttpResponse]) -> View:
    """Calls ``view(request, agent, user, ...)`` for those who may; what it raises becomes ``{"error": ...}`` with 400."""

    @for_talkers
    @wraps(view)
    def call(request: HttpRequest, name: str, **parts: Any) -> HttpResponse:
        agent = get_object_or_404(Agent, name=name)
        try:
            return view(request, agent, signed_in(request), **parts)
        except RatchetError as error:
            return JsonResponse({"error": str(error)}, status=400)

    return call
