"""Buttons on the page of one record, beside those that Django has."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.admin import ModelAdmin
from django.contrib.auth.decorators import permission_required
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.views.decorators.http import require_POST


def button(
    model_admin: ModelAdmin, name: str, permission: str, view: Callable[[HttpRequest, int], HttpResponse]
) -> URLPattern:
    """``<pk>/<name>/``: takes a POST with a token, from staff with the permission."""
    guarded = require_POST(permission_required(permission, raise_exception=True)(view))
    address = f"rl_{model_admin.opts.model_name}_{name}"
    return path(f"<int:pk>/{name}/", model_admin.admin_site.admin_view(guarded), name=address)
