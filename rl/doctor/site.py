"""Settings, and what Django's own checks say of them."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from django.conf import settings
from django.core import checks
from django.http.request import validate_host

from rl.doctor import Symptom, fine, problem, warning

_LEFT_OUT = ("security.W005", "security.W021", "rl.W003")
"""HSTS for subdomains and preloading, for the operator to decide; and what machine.disk_space looks at."""


def system_checks() -> Iterator[Symptom]:
    """Those of ``manage.py check --deploy``: permissions, sandbox, registries, queue, https. What belongs to a machine of
    one's own is not told there."""
    messages = [
        message
        for message in checks.run_checks(include_deployment_checks=not settings.DEBUG)
        if message.id not in _LEFT_OUT and not message.is_silenced()
    ]
    for message in messages:
        say = problem if message.is_serious() else warning
        yield say(message.msg, message.hint or f"see {message.id} in Django's documentation of its checks")
    if not messages:
        yield fine("manage.py check has nothing to say")


def debugging() -> Iterator[Symptom]:
    if settings.DEBUG:
        yield warning("DEBUG=1: error pages show settings, and there is no https", "on a server: DEBUG=0 in .env")
    else:
        yield fine("DEBUG=0")


def addresses() -> Iterator[Symptom]:
    """What SITE_URL, ALLOWED_HOSTS, HTTPS and the proxy's settings say of each other."""
    parts = urlsplit(settings.SITE_URL)
    if settings.HTTPS and parts.scheme != "https":
        yield problem(
            f"SITE_URL={settings.SITE_URL} is not https, and HTTPS=1 sends browsers there", "correct SITE_URL"
        )
    if not validate_host(parts.hostname or "", settings.ALLOWED_HOSTS):
        yield problem(
            f"SITE_URL={settings.SITE_URL} names a host that the site does not answer to",
            f"add {parts.hostname} to ALLOWED_HOSTS",
        )
    if "*" in settings.ALLOWED_HOSTS and not settings.DEBUG:
        yield warning("ALLOWED_HOSTS=* answers to any host name", "name the hosts of this site")
    behind = settings.SECURE_PROXY_SSL_HEADER is not None
    proxies = settings.REST_FRAMEWORK["NUM_PROXIES"]
    if behind and not proxies:
        yield problem(
            "BEHIND_PROXY=1 and NUM_PROXIES=0: all clients count as one, the proxy",
            "NUM_PROXIES=1, or as many proxies of your own as there are",
        )
    if settings.HTTPS and not behind:
        yield warning(
            "HTTPS=1 and BEHIND_PROXY=0: manage.py serve does not encrypt, so every page redirects for ever",
            "BEHIND_PROXY=1 behind a proxy that encrypts and sets X-Forwarded-Proto itself",
        )
    yield fine(f"the site is {settings.SITE_URL}")


def secret_key() -> Iterator[Symptom]:
    if settings.SECRET_KEY_FALLBACKS:
        yield warning(
            f"{len(settings.SECRET_KEY_FALLBACKS)} old secret keys are still accepted",
            "empty SECRET_KEY_FALLBACKS two weeks after the change",
        )
    if len(settings.SECRET_KEY) < 50 or len(set(settings.SECRET_KEY)) < 5:
        yield problem(
            "SECRET_KEY is short or simple: sessions could be forged",
            'python3 -c "import secrets; print(secrets.token_urlsafe(50))"',
        )
    else:
        yield fine("SECRET_KEY is long enough")
