"""Pages speak the reader's language: what was chosen at their foot, else what the browser asks for. Programs are answered in
English, and what is stored is English."""

from typing import Any, Final

from django.conf import settings
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.locale import LocaleMiddleware
from django.utils import translation
from django.views.decorators.cache import cache_control
from django.views.i18n import JavaScriptCatalog

CALLS: Final = ("/api/", "/v1/")


class PageLanguageMiddleware(LocaleMiddleware):
    """A thread goes back to English when it has answered: its next request may be a program's."""

    def __call__(self, request: HttpRequest) -> Any:
        with translation.override(settings.LANGUAGE_CODE):
            return self.get_response(request) if request.path.startswith(CALLS) else super().__call__(request)


@cache_control(public=True, max_age=31_536_000, immutable=True)
def words(request: HttpRequest, language: str, version: str) -> HttpResponseBase:
    """What scripts of pages say. ``version``: of this installation, so that browsers ask anew after an update."""
    if language not in dict(settings.LANGUAGES):
        raise Http404(f"there is no language {language}")
    with translation.override(language):
        return JavaScriptCatalog.as_view(packages=["rl"])(request)
