"""Which webhook gets which events: the operator's WEBHOOKS_FILE."""

import base64
import binascii
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings

from rl.base.errors import UsageError
from rl.base.names import unknown_name
from rl.base.slugs import VARIABLE
from rl.config.fields import check_fields
from rl.environments.config_file import read_document
from rl.environments.variables import require_texts

EVENTS: Final = ("run.finished", "version.judged", "deployment.changed", "experiment.decided", "experiment.waits")
SECRET_BYTES: Final = (24, 64)
"""Fewest and most; https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md"""
_PREFIX: Final = "whsec_"


@dataclass(frozen=True, slots=True)
class Endpoint:
    name: str
    url: str = ""
    secret: str = ""
    secret_env: str = ""
    """The environment variable that holds the secret, in the process of the queue."""
    events: Sequence[str] = EVENTS
    agents: Sequence[str] | None = None
    """Names of the agents whose events are sent; None: all."""
    allow_private: bool = False
    """Whether it may be on this machine or in this network, and without TLS."""

    def __post_init__(self) -> None:
        """Raises UsageError."""
        check_fields(self)
        for key, names in (("events", self.events), ("agents", self.agents)):
            if names is not None and not require_texts(key, names, f"[{EVENTS[0]}]"):
                raise UsageError(f"{key} is a list without names: leave it out for all of them")
        self._check_url()
        if bool(self.secret) == bool(self.secret_env):
            raise UsageError("needs either secret or secret_env")
        if self.secret_env and not VARIABLE.fullmatch(self.secret_env):
            raise UsageError("secret_env is the name of an environment variable, not the secret itself")
        if self.secret:
            self.key()
        if unknown := [event for event in self.events if event not in EVENTS]:
            raise UsageError(f"events: {unknown_name('event', unknown[0], EVENTS)}")

    def _check_url(self) -> None:
        schemes = ("https", "http") if self.allow_private else ("https",)
        try:
            parts = urlsplit(self.url)
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            raise UsageError(f"url: {error}") from None
        if parts.scheme not in schemes or not host or not self.url.isascii() or re.search(r"[\s\x00-\x1f]", self.url):
            raise UsageError(
                f"url must look like https://hooks.example.com/ratchet (http:// with allow_private), not {self.url!r}"
            )
        if parts.username is not None or parts.fragment:
            raise UsageError("url must have no user name and no '#'")

    def wants(self, event: str, agent: str) -> bool:
        return event in self.events and (self.agents is None or agent in self.agents)

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
    return read_document(Path(settings.WEBHOOKS_FILE)).read_records(Endpoint, "webhook")
