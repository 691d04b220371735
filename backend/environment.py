"""Reading settings from the environment. A wrong value stops the start with one line; nothing is guessed."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

TRUE, FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")
_READ: set[str] = set()
_SECRET = {"ENV_FILE"}


def plain_names() -> frozenset[str]:
    """The variables that were read until now and hold no secret, nor say which file holds one."""
    return frozenset(_READ - _SECRET)


def text(name: str, default: str = "") -> str:
    _READ.add(name)
    return os.environ.get(name, default).strip()


def user_cache() -> Path:
    """This program's cache folder, shared by all copies of it that the user runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ratchet"


def secret(name: str) -> str:
    """The variable itself, or the content of the file that ``<name>_FILE`` points at."""
    _SECRET.update((name, f"{name}_FILE"))
    path = text(f"{name}_FILE")
    if not path:
        return text(name)
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise ImproperlyConfigured(f"{name}_FILE={path} cannot be read: {error.strerror}") from None


def boolean(name: str, default: bool) -> bool:
    value = text(name, "1" if default else "0").lower()
    if value not in TRUE + FALSE:
        raise ImproperlyConfigured(f"{name}={value!r} is neither true nor false; use 1 or 0")
    return value in TRUE


def integer(name: str, default: int, low: int, high: int) -> int:
    value = text(name, str(default))
    try:
        number = int(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name}={value!r} is not a whole number") from None
    if not low <= number <= high:
        raise ImproperlyConfigured(f"{name}={number} is not between {low} and {high}")
    return number


def one_of(name: str, known: Sequence[str]) -> str:
    """The first is the default."""
    value = text(name, known[0]).lower()
    if value not in known:
        raise ImproperlyConfigured(f"{name}={value!r} is unknown; use {' or '.join(known)}")
    return value


def address(name: str, default: str) -> str:
    """Address of a web server, without a slash at the end."""
    return _address(name, text(name, default))


def addresses(name: str) -> dict[str, str]:
    """``name=address`` items, comma-separated."""
    return {key: _address(name, value) for key, value in pairs(name, texts(name)).items()}


def _address(name: str, value: str) -> str:
    value = value.rstrip("/")
    if not re.fullmatch(r"https?://(\[[0-9A-Fa-f:]+\]|[\w.-]+)(:\d{1,5})?(/[^\s?#]*)?", value):
        raise ImproperlyConfigured(f"{name}={value!r} is not an address: write http://host:port or https://host:port")
    return value


def texts(name: str, default: Sequence[str] = ()) -> list[str]:
    """Comma-separated values."""
    return [part.strip() for part in text(name, ",".join(default)).split(",") if part.strip()]


def origins(name: str) -> dict[str, str]:
    """``origin`` or ``origin=agent`` items, comma-separated: origin to agent, which is empty where none is named."""
    parts = [value.partition("=") for value in texts(name)]
    for origin, sign, agent in parts:
        if not re.fullmatch(r"https?://(\[[0-9a-f:]+\]|[a-z0-9.-]+)(:\d{1,5})?", origin) or bool(sign) != bool(agent):
            raise ImproperlyConfigured(
                f"{name}: {origin + sign + agent!r} is not an origin as browsers write it: http://host:port or "
                "https://host, with =AGENT after it or without"
            )
    return {origin: agent for origin, _, agent in parts}


def secrets(name: str) -> list[str]:
    """Comma-separated values."""
    _SECRET.add(name)
    return texts(name)


def variables(name: str) -> list[str]:
    """Comma-separated names of environment variables, none of them a secret of Ratchet's own that was read until now."""
    names = texts(name)
    for variable in names:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
            raise ImproperlyConfigured(f"{name}: {variable!r} is not the name of an environment variable")
        if variable in _SECRET:
            raise ImproperlyConfigured(f"{name}: {variable} is Ratchet's own and stays where it is")
    return names


def pairs(name: str, values: Sequence[str]) -> dict[str, str]:
    """The ``key=value`` items of the variable ``name``."""
    parts = [value.partition("=") for value in values]
    for key, sign, value in parts:
        if not (key.strip() and sign and value.strip()):
            raise ImproperlyConfigured(f"{name}: {key + sign + value!r} is not written as name=value")
    return {key.strip(): value.strip() for key, _, value in parts}


def hours(name: str) -> tuple[int, int] | None:
    """``22-6`` as (22, 6): from the first hour of a day to before the second; None where nothing is said."""
    value = text(name)
    if not value:
        return None
    match = re.fullmatch(r"(\d{1,2})-(\d{1,2})", value)
    first, last = (int(part) for part in match.groups()) if match else (0, 0)
    if first > 23 or last > 24 or first == last:
        raise ImproperlyConfigured(
            f"{name}={value!r} is not a part of a day: write it like 22-6, in hours from 0 to 24"
        )
    return first, last % 24
