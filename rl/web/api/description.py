"""The description of the API and its page: for people who are signed in, for servers with a secret key, or, where the
operator set OPEN_API_DOCS, for everybody."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpResponse
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import NotAuthenticated
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from rl.models import ApiKey
from rl.web.api.auth import ApiKeyAuthentication


class MayRead(BasePermission):
    def has_permission(self, request: Request, view: Any) -> bool:
        key = request.auth
        has_secret_key = isinstance(key, ApiKey) and key.kind == ApiKey.Kind.SECRET
        return settings.OPEN_API_DOCS or has_secret_key or bool(request.user and request.user.is_authenticated)


class Schema(SpectacularAPIView):
    authentication_classes = [ApiKeyAuthentication, SessionAuthentication]
    permission_classes = [MayRead]


class Page(SpectacularSwaggerSplitView):
    """Asks whoever may not read it to sign in."""

    authentication_classes = Schema.authentication_classes
    permission_classes = Schema.permission_classes
    url_name = "api-schema"
    template_name = "rl/api_docs.html"  # the stock one has an inline style, which the Content-Security-Policy forbids

    def handle_exception(self, exc: Exception) -> HttpResponse:
        if isinstance(exc, NotAuthenticated):
            return redirect_to_login(self.request.get_full_path())
        return super().handle_exception(exc)
