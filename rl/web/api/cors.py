"""Which pages a browser may call the API from: those that a publishable key names."""

import re
from typing import Any

from django.conf import settings
from django.http import HttpRequest

from rl.models import ApiKey


def allow_origin_of_publishable_key(sender: Any, request: HttpRequest, **kwargs: Any) -> bool:
    """For corsheaders' ``check_request_enabled``.

    A preflight carries no key, so any publishable key that is valid vouches for its origins; which key works from
    which page is checked when the request itself comes. Answers for no other path: True would open it.
    """
    origin = request.headers.get("Origin")
    if not origin or not re.match(settings.CORS_URLS_REGEX, request.path_info):
        return False
    used = getattr(request, "auth", None)  # set once the key was read: saves the query
    if isinstance(used, ApiKey) and origin in used.allowed_origins:
        return True
    publishable = ApiKey.valid().filter(kind=ApiKey.Kind.PUBLISHABLE)
    return any(origin in origins for origins in publishable.values_list("allowed_origins", flat=True))
