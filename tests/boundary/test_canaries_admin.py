"""No field of the admin, no setting inside of its JSON and no form of the pages makes Ratchet run, import, open or connect
to anything. Fields are found on the pages: a new one is covered as soon as it is there."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from django import forms
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import Model
from django.template.response import SimpleTemplateResponse
from django.test import Client, RequestFactory
from django.urls import get_resolver

from rl.config import authority
from rl.config.authority import HYPER_PARAMETERS, Owner
from rl.models import Agent, AnswerPair, Claim, Experiment, Trace
from tests.admin.records import make_loop
from tests.boundary import canaries
from tests.boundary.canaries import FORMS, PATH, SETTINGS, TEXTS
from tests.boundary.forms import forms_on, is_free, names_read, sent
from tests.boundary.using import use
from tests.boundary.watching import Deed, Watch

pytestmark = pytest.mark.django_db
CHOICES = [name for name, who in HYPER_PARAMETERS.items() if who is Owner.CHOICE]
EDITED = {"Agent", "ApiKey", "Deployment", "Experiment", "Group", "User"}
"""Whose records can be changed in the admin."""


@pytest.fixture
def rows(rated: Agent, charlie: User) -> Agent:
    """One of every kind."""
    make_loop(Agent.objects.create(name="looped"))
    Group.objects.create(name="raters")
    return rated


def address_of(model: type[Model]) -> str:
    return f"/admin/{model._meta.app_label}/{model._meta.model_name}/"


def pages(user: User) -> Iterator[tuple[type[Model], str]]:
    """Where something can be written: to add one, and to change one."""
    request = RequestFactory().get("/")
    request.user = user
    for model in sorted(admin.site._registry, key=lambda model: model.__name__):
        model_admin = admin.site.get_model_admin(model)
        if model_admin.has_add_permission(request):
            yield model, f"{address_of(model)}add/"
        if model_admin.has_change_permission(request):
            record = model._default_manager.exclude(pk=user.pk if model is User else None).order_by("pk").first()
            assert record is not None, model
            yield model, f"{address_of(model)}{record.pk}/change/"


@contextmanager
def undone() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@contextmanager
def not_drawn() -> Iterator[None]:
    """The page with the refusal, which takes longer than all else."""
    with patch.object(SimpleTemplateResponse, "rendered_content", ""):
        yield


def texts_for(field: forms.Field) -> dict[str, str]:
    """What is typed into its box."""
    if isinstance(field, forms.JSONField):
        return {form: json.dumps(value) for form, value in FORMS.items()}
    return TEXTS if is_free(field) else {"path": PATH}


def test_no_field_of_the_admin_does_anything(staff: Client, bob: User, rows: Agent, watch: Watch):
    taken: list[str] = []
    edited = set()
    for model, page in pages(bob):
        shown = staff.get(page)
        base = sent(shown)
        with undone():
            answer = staff.post(page, base)
            assert answer.status_code == 302, (page, base, answer.context["adminform"].form.errors)
        edited.add(model.__name__)
        together: dict[str, str] = {}
        every = dict(fields_on(shown))
        watch.at = f"{page} with a path in every field"
        assert staff.post(page, {**base, **dict.fromkeys(every, PATH)}).status_code == 200
        for name, field in every.items():
            for form, text in texts_for(field).items():
                watch.at = f"{page} {name} {form}"
                with undone(), not_drawn():
                    if staff.post(page, {**base, name: text}).status_code == 302:
                        taken.append(watch.at)
                        together[name] = text
        if model is Agent and page.endswith("change/"):
            watch.at = f"{page} {together}"
            assert staff.post(page, {**base, **together}).status_code == 302
            use(Agent.objects.get(name=together.get("name", rows.name)), watch)
    assert edited == EDITED
    assert len(taken) > 20
    assert watch.deeds == []


def fields_on(page: Any) -> Iterator[tuple[str, forms.Field]]:
    for form in forms_on(page):
        for bound in form:
            parts = bound.field.widget.widgets if isinstance(bound.field.widget, forms.MultiWidget) else []
            names = [f"{bound.html_name}_{number}" for number in range(len(parts))] or [bound.html_name]
            yield from ((name, bound.field) for name in names)


def test_no_setting_inside_of_json_does_anything(staff: Client, rows: Agent, watch: Watch):
    page = f"{address_of(Agent)}{rows.pk}/change/"
    shown = staff.get(page)
    form, base = shown.context["adminform"].form, sent(shown)
    names = [name for name, field in form.fields.items() if isinstance(field, forms.JSONField)]
    assert {"training_overrides", "reward_weights", "decision_weights", "guard_limits"} <= {*names}
    for name in names:
        alone = type(form)({}, instance=Agent.objects.get(pk=rows.pk))
        for other in {*alone.fields} - {name}:
            del alone.fields[other]
        for key in canaries.KEYS:
            for value in (PATH, SETTINGS["all"], *([SETTINGS["tools"]] if key in CHOICES else [])):
                watch.at, text = f"{name} {key} {value}", json.dumps({key: value})
                alone.data = {name: text}
                alone.full_clean()
                if not alone.errors:
                    with undone():
                        staff.post(page, {**base, name: text})
                        use(rows, watch)
    assert watch.deeds == []


def test_no_form_of_a_page_does_anything(staff: Client, rows: Agent, watch: Watch):
    posted, asked = names_read("POST"), names_read("GET")
    assert {"action", "event", "trace", "notes"} <= {*posted}
    assert {"find", "agent", "key"} <= {*asked}
    for page in addresses(rows):
        for name in posted:
            watch.at = f"{page} {name}"
            staff.post(page, {name: PATH})
        for form, text in TEXTS.items():
            watch.at = f"{page} {form}"
            staff.post(page, dict.fromkeys(posted, text))
            staff.get(page, dict.fromkeys(asked, text))
    use(rows, watch)
    assert watch.deeds == []


def addresses(agent: Agent) -> list[str]:
    """Of all pages but the API and the admin, for what is there and for a canary."""
    known = {
        "name": agent.name,
        "agent": agent.name,
        "queue": "answers",
        "pk": Trace.objects.first().pk,
        "address": "x",
        "version": "v1",
        "language": "de",
    }
    known |= {"pair": AnswerPair.objects.first().pk, "side": "a", "file": "model.gguf", "trace": known["pk"]}
    numbers = {"pk": Experiment.objects.first().pk, "claim": Claim.objects.first().pk}
    found = []
    for pattern in get_resolver("rl.web.urls").url_patterns:
        if not hasattr(pattern, "callback"):
            continue
        route = str(pattern.pattern)
        for values in (known, {**known, "name": "canary7f3a_module.Thing"}):
            address = route
            for name, converter in pattern.pattern.converters.items():
                is_number = type(converter).__name__ == "IntConverter"
                kind = {"IntConverter": "int", "UUIDConverter": "uuid", "AnswerConverter": "answer"}.get(
                    type(converter).__name__, "str"
                )
                address = address.replace(f"<{kind}:{name}>", str(numbers[name] if is_number else values[name]))
            found.append(f"/{address}")
    return sorted(set(found))


# --- the walk itself: it sees what happens without the check ------------------------------------------------------------


def test_without_the_registered_names_a_folder_would_be_looked_at(
    staff: Client, rows: Agent, watch: Watch, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("rl.admin.access.BaseModelField", lambda own: forms.CharField(required=False))
    page = f"{address_of(Agent)}{rows.pk}/change/"
    assert staff.post(page, {**sent(staff.get(page)), "base_model": PATH}).status_code == 302
    with pytest.raises(Deed, match="os.stat"):
        use(rows, watch)


def test_without_the_table_a_module_among_the_overrides_would_be_imported(
    staff: Client, rows: Agent, watch: Watch, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(authority, "owner", lambda table, name: Owner.TRAINER)
    page = f"{address_of(Agent)}{rows.pk}/change/"
    overrides = json.dumps({"environment": canaries.FOR_TRAINING["type"]})
    assert staff.post(page, {**sent(staff.get(page)), "training_overrides": overrides}).status_code == 302
    with pytest.raises(Deed, match="find_spec|import"):
        use(rows, watch)
