"""Forms as a browser sends them, found on the pages and in their code."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django import forms
from django.conf import settings
from django.db.models import Model
from django.forms.boundfield import BoundField
from django.http import HttpResponse

from tests.boundary.canaries import kinds

LISTED = (forms.ChoiceField, forms.ModelChoiceField, forms.BooleanField, forms.DateTimeField, forms.IntegerField)
PASSWORD = "canaries-sing-in-mines"


def forms_on(page: HttpResponse) -> list[forms.BaseForm]:
    """Of an admin's page, those of its inlines too."""
    found = [page.context["adminform"].form]
    for inline in page.context["inline_admin_formsets"]:
        found += [inline.formset.management_form, *inline.formset.forms]
    return found


def sent(page: HttpResponse) -> dict[str, Any]:
    """What a browser would send back; what is required and empty is filled in."""
    data: dict[str, Any] = {}
    for form in forms_on(page):
        for bound in form:
            data |= _value(bound, fill=form.empty_permitted is False if hasattr(form, "empty_permitted") else False)
    return data


def _value(bound: BoundField, fill: bool) -> dict[str, Any]:
    value, widget, name = bound.value(), bound.field.widget, bound.html_name
    if isinstance(widget, forms.MultiWidget):
        return {f"{name}_{number}": part or "" for number, part in enumerate(widget.decompress(value))}
    if isinstance(bound.field, forms.MultipleChoiceField | forms.ModelMultipleChoiceField):
        return {name: [each.pk if isinstance(each, Model) else each for each in value or []]}
    if isinstance(bound.field, forms.BooleanField):
        return {name: "on"} if value else {}
    if value in (None, "") and fill and (bound.field.required or "password" in name):
        value = _filling(bound)
    return {name: "" if value is None else value}


def _filling(bound: BoundField) -> Any:
    if isinstance(bound.field, forms.ModelChoiceField):
        return bound.field.queryset.first().pk
    if isinstance(bound.field, forms.ChoiceField):
        return next(value for value, _ in bound.field.choices if value)
    return PASSWORD if "password" in bound.name else "text"


def is_free(field: forms.Field) -> bool:
    """Whether any text may be meant, and not one of a list, a number or a time."""
    return not isinstance(field, LISTED)


def names_read(method: str) -> list[str]:
    """That pages read of a request: ``request.POST.get("name")``, and the fields of their forms."""
    found = {
        name for kind in kinds(forms.BaseForm) if kind.__module__.startswith("rl.web") for name in kind.base_fields
    }
    for file in Path(settings.BASE_DIR, "rl", "web", "pages").glob("*.py"):
        found |= {*_names_in(ast.parse(file.read_text()), method)}
    return sorted(found)


def _names_in(tree: ast.AST, method: str) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(attr=attribute)), args=[ast.Constant(value=str(name)), *_]
            ) if attribute == method:
                yield name
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="posted"), attr="get"), args=[ast.Constant(value=str(name)), *_]
            ) if method == "POST":  # what a view has handed over
                yield name
