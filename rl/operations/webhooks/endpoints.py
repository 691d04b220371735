"""Which webhook gets which events: the operator's WEBHOOKS_FILE."""

import base64
import binascii
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings

from rl.base.errors import UsageError
from rl.base.names import unknown_name
from rl.base.slugs import VARIABLE, check_slug
from rl.environments.config_file.document import Document, describe_value, read_document

EVENTS: Final = ("run.finished", "version.judged", "deployment.changed", "experiment.decided", "experiment.waits")
SECRET_BYTES: Final = (24, 64)
"""Fewest and most; https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md"""
_PREFIX: Final = "whsec_"


@dataclass(frozen=True, slots=True)
class Endpoint:
    name: str
    url: str
    secret: str = ""
    secret_env: str = ""
    """The environment variable that holds the secret, in the process of the queue."""
    events: tuple[str, ...] = EVENTS
    agents: tuple[str, ...] = ()
    """Names of the agents whose events are sent; none named: all."""
    allow_private: bool = False
    """Whether it may be on this machine or in this network, and without TLS."""

    def wants(self, event: str, agent: str) -> bool:
        return event in self.events and (not self.agents or agent in self.agents)

    def key(self) -> bytes:
        """Raises UsageError for a secret that is missing or malformed."""
        text = os.environ.get(self.secret_env, "") if self.secret_env else self.secret
        where = f"the variable {self.secret_env}" if self.secret_env else "secret"
        try:
            key = base64.b64decode(text.strip().removeprefix(_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if not SECRET_BYTES[0] <= len(key) <= SECRET_BYTES[1]:
            raise UsageError(
                f"{where} of webhook {self.name} is not {_PREFIX} and 24 to 64 bytes in base64; "
                "'manage.py webhooks secret' makes one"
            )
        return key


def endpoints() -> dict[str, Endpoint]:
    """The endpoints by name; none without a WEBHOOKS_FILE. Raises BadFile."""
    if not settings.WEBHOOKS_FILE:
        return {}
    document = read_document(Path(settings.WEBHOOKS_FILE))
    return {name: _endpoint(document, name) for name in document.values}


def _endpoint(document: Document, name: str) -> Endpoint:
    values = document.section(name, [field.name for field in fields(Endpoint) if field.name != "name"])
    try:
        check_slug(name, "the name of a webhook")
        for key in values:
            values[key] = _read(key, values[key])
        _check(values)
        return Endpoint(name=name, **values)
    except UsageError as error:
        raise document.refusal_about(str(error), (name,)) from None


def _read(key: str, value: Any) -> Any:
    if key == "allow_private":
        if not isinstance(value, bool):
            raise UsageError(f"allow_private must be true or false, not {describe_value(value)}")
        return value
    if key in ("events", "agents"):
        if not isinstance(value, list) or not value or not all(isinstance(name, str) for name in value):
            raise UsageError(f"{key} must be a list of names, such as [{EVENTS[0]}], not {describe_value(value)}")
        return tuple(value)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{key} must be a text, not {describe_value(value)}")
    return value


def _check(values: Mapping[str, Any]) -> None:
    """Raises UsageError."""
    _check_url(values.get("url", ""), values.get("allow_private", False))
    if ("secret" in values) == ("secret_env" in values):
        raise UsageError("needs either secret or secret_env")
    if "secret_env" in values and not VARIABLE.fullmatch(values["secret_env"]):
        raise UsageError("secret_env is the name of an environment variable, not the secret itself")
    if "secret" in values:
        Endpoint("of this name", values["url"], values["secret"]).key()
    if unknown := [event for event in values.get("events", ()) if event not in EVENTS]:
        raise UsageError(f"events: {unknown_name('event', unknown[0], EVENTS)}")


def _check_url(url: str, allow_private: bool) -> None:
    schemes = ("https", "http") if allow_private else ("https",)
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"url: {error}") from None
    if parts.scheme not in schemes or not host or not url.isascii() or re.search(r"[\s\x00-\x1f]", url):
        raise UsageError(
            f"url must look like https://hooks.example.com/ratchet (http:// with allow_private), not {url!r}"
        )
    if parts.username is not None or parts.fragment:
        raise UsageError("url must have no user name and no '#'")
