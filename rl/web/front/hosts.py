"""Names that the site does not answer to are refused in one line, before Django would log a traceback for each."""

from __future__ import annotations

import logging
from functools import lru_cache
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from rl.web.front.refusals import Refused

log = logging.getLogger(__name__)


def require_known_host(scope: Any) -> None:
    """Raises Refused (400). A request without a name (HTTP/1.0) is for this machine."""
    names = [value for name, value in scope["headers"] if name == b"host"]
    if names and not (len(names) == 1 and _is_known(names[0], tuple(settings.ALLOWED_HOSTS))):
        host = b",".join(names)[:100].decode("latin-1")
        log.warning("a request for the host %r was refused: it is not in ALLOWED_HOSTS", host)
        raise Refused(HTTPStatus.BAD_REQUEST, "unknown-host", f"this site does not answer to the host {host!r}")


@lru_cache(256)
def _is_known(name: bytes, allowed: tuple[str, ...]) -> bool:
    domain, _ = split_domain_port(name.decode("latin-1"))
    return bool(domain) and validate_host(domain, allowed)
