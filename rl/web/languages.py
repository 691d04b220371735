"""Pages speak the reader's language: what was chosen at their foot, else what the browser asks for. Programs are answered in
English, and what is stored is English."""

import hashlib
from functools import cache
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.locale import LocaleMiddleware
from django.utils import translation
from django.utils.cache import patch_cache_control
from django.views.i18n import JavaScriptCatalog

CALLS: Final = ("/api/", "/v1/")


class PageLanguageMiddleware(LocaleMiddleware):
    """A thread goes back to English when it has answered: its next request may be a program's."""

    def __call__(self, request: HttpRequest) -> Any:
        with translation.override(settings.LANGUAGE_CODE):
            return self.get_response(request) if request.path_info.startswith(CALLS) else super().__call__(request)


@cache
def digest() -> str:
    """Names the words of scripts as they are now: their address changes with them."""
    catalogs = sorted(Path(settings.LOCALE_PATHS[0]).glob("*/LC_MESSAGES/djangojs.mo"))
    return hashlib.sha256(b"".join(catalog.read_bytes() for catalog in catalogs)).hexdigest()[:12]


def words(request: HttpRequest, language: str, version: str) -> HttpResponseBase:
    """Answers with what scripts of pages say. Browsers keep those whose ``version`` is today's digest."""
    if language not in dict(settings.LANGUAGES):
        raise Http404(f"there is no language {language}")
    with translation.override(language):
        answer = JavaScriptCatalog.as_view(packages=["rl"])(request)
    if version == digest():
        patch_cache_control(answer, public=True, max_age=31_536_000, immutable=True)
    else:
        patch_cache_control(answer, no_cache=True)
    return answer
