"""``tools.mcp`` of a configuration: servers by name, and how each is reached."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from rl.base.errors import UsageError
from rl.base.names import require_known
from rl.config.fields import check_fields, within
from rl.environments.tools.web_search.backend import SearchEndpoint
from rl.environments.variables import require_named_texts, require_names, require_no_secrets, require_texts

_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
_HEADER = re.compile(r"[A-Za-z0-9-]+")
_VALUE = re.compile(r"[ -~]+")
_OF_COMMAND, _OF_URL = ("env", "env_from", "cwd"), ("headers_env",)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """Raises UsageError, naming the key, for a value that is impossible. Values of secrets are never in it."""

    name: str
    command: Sequence[str] = ()
    """Program and arguments of a server that is started here and spoken to over its standard input and output."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the program, beside PATH, HOME and the like."""
    env_from: Sequence[str] = ()
    """Names of variables that it gets from our own environment: secrets."""
    cwd: str = ""
    """Folder in which it is started; empty: ours."""
    url: str = ""
    """Address of a server that is spoken to by streamable HTTP."""
    headers_env: Mapping[str, str] = field(default_factory=dict)
    """Header to the variable of our environment that has its value."""
    timeout: float = within(0.1, 600, 30.0)
    """Seconds of one call."""
    start_timeout: float = within(0.1, 600, 60.0)
    """Seconds until a server must be ready."""
    tools: Sequence[str] | None = None
    """Names of the tools that the agent gets; None: all."""
    prefix: bool = False
    """Tools are named ``server_tool``."""

    @classmethod
    def of(cls, name: str, values: Any) -> McpServer:
        """Raises UsageError for a key that is unknown too."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise UsageError(f"tools.mcp: a server's name has letters, digits, _ and -, at most 32, not {name!r}")
        if not isinstance(values, Mapping):
            raise UsageError(f"tools.mcp.{name} must say how the server is reached: command or url")
        known = [entry.name for entry in fields(cls) if entry.name != "name"]
        for key in values:
            require_known("key", key, known, section=f"tools.mcp.{name}")
        return cls(name=name, **values)

    def __post_init__(self) -> None:
        for key in ("command", "env_from", *(("tools",) if self.tools is not None else ())):
            example = "[python, server.py]" if key == "command" else "[one, another]"
            require_texts(f"{self.where}.{key}", getattr(self, key), example)
        if self.tools is not None and not self.tools:
            raise UsageError(f"{self.where}.tools names no tool; leave it out for all of them")
        for key in ("env", "headers_env"):
            require_named_texts(f"{self.where}.{key}", getattr(self, key))
        check_fields(self, f"{self.where}.")
        self._check_way()
        require_names(f"{self.where}.env_from", self.env_from)
        require_names(f"{self.where}.headers_env", self.headers_env.values())
        for name in self.headers_env:
            if not _HEADER.fullmatch(name):
                raise UsageError(f"{self.where}.headers_env: {name[:100]!r} is not a header name")
        require_no_secrets(f"{self.where}.env", self.env)

    @property
    def where(self) -> str:
        return f"tools.mcp.{self.name}"

    def environment(self) -> dict[str, str]:
        """Variables of the program, beside what every program gets. Raises UsageError for one that is not set."""
        return {**self.env, **{name: self._variable(name, "env_from") for name in self.env_from}}

    def headers(self) -> dict[str, str]:
        """A token alone goes as ``Bearer``. Raises UsageError for a variable that is not set."""
        headers = {name: self._variable(variable, "headers_env") for name, variable in self.headers_env.items()}
        for name, value in headers.items():
            if not _VALUE.fullmatch(value):
                raise UsageError(f"{self.where}: what {self.headers_env[name]} holds cannot be sent as a header")
            if name.lower() == "authorization" and " " not in value:
                headers[name] = f"Bearer {value}"
        return headers

    def redact(self, text: str) -> str:
        """Without the values of secrets."""
        for variable in (*self.env_from, *self.headers_env.values()):
            if value := os.environ.get(variable, "").strip():
                text = text.replace(value, "***")
        return text

    def _variable(self, name: str, key: str) -> str:
        value = os.environ.get(name, "").strip()
        if not value:
            raise UsageError(f"{self.where}.{key}: the environment variable {name} is not set")
        return value

    def _check_way(self) -> None:
        if bool(self.command) == bool(self.url):
            raise UsageError(f"{self.where} needs either command or url, and not both")
        for key in _OF_URL if self.command else _OF_COMMAND:
            if getattr(self, key):
                raise UsageError(f"{self.where}.{key} is only for servers with {'url' if self.command else 'command'}")
        if not self.url:
            return
        if "?" in self.url or "#" in self.url or "@" in self.url:
            raise UsageError(f"{self.where}.url must have no user name, '?' or '#': secrets go by headers_env")
        try:
            SearchEndpoint.parse(self.url)
        except UsageError as error:
            raise UsageError(f"{self.where}.url: {error}") from None


def servers_of(values: Any) -> list[McpServer]:
    """Raises UsageError, and starts nothing."""
    if not isinstance(values, Mapping) or not values:
        raise UsageError("tools.mcp must have a name for each server, and below it how the server is reached")
    return [McpServer.of(name, settings) for name, settings in values.items()]
