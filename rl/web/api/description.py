"""The description of the API and its page: for people who are signed in, for secret keys that may read, or, where the
operator set OPEN_API_DOCS, for everybody."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any, cast

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import NotAuthenticated
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

from rl.web.api.auth import READ, ApiKeyAuthentication, MayCall


class MayRead(MayCall):
    def has_permission(self, request: Request, view: Any) -> bool:
        is_signed_in = bool(request.user and request.user.is_authenticated)
        return settings.OPEN_API_DOCS or is_signed_in or super().has_permission(request, view)


class _Kept:
    scopes = {"GET": READ}
    authentication_classes = [ApiKeyAuthentication, SessionAuthentication]
    permission_classes = [MayRead]
    request: Request

    def handle_exception(self, exc: Exception) -> HttpResponse:
        """Refusals are JSON, also where YAML or a page was asked for."""
        self.request.accepted_renderer = JSONRenderer()
        return super().handle_exception(exc)  # type: ignore[misc]


class Description(_Kept, SpectacularAPIView):
    """The document, which each process writes once in each form: the code alone determines it."""

    def _get_schema_response(self, request: Request) -> HttpResponse:
        form = type(request.accepted_renderer)
        headers = {"Content-Disposition": f'inline; filename="{self._get_filename(request, None)}"'}
        return HttpResponse(_write(cast(Hashable, form)), content_type=form.media_type, headers=headers)


@cache
def _write(form: Any) -> Any:
    return form().render(SchemaGenerator().get_schema(public=True))


class DescriptionPage(_Kept, SpectacularSwaggerSplitView):
    """Asks whoever may not read it to sign in."""

    url_name = "api-schema"
    template_name = "rl/api_docs.html"  # the stock one has an inline style, which the Content-Security-Policy forbids

    def handle_exception(self, exc: Exception) -> HttpResponse:
        if isinstance(exc, NotAuthenticated):
            return redirect_to_login(self.request.get_full_path())
        return super().handle_exception(exc)
