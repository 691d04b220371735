"""Canaries: a command, an address, a path, a module and a variable that nobody named, alone and inside of JSON."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from rl.config import METHODS
from rl.config.authority import AGENT, DATA_OPTIONS, HYPER_PARAMETERS, RUN_OPTIONS
from rl.config.guard_limits import GUARD_LIMITS
from rl.rewards import REWARDS
from tests.boundary.watching import TOKEN

COMMAND = [f"/bin/{TOKEN}", "-c", "id"]
ADDRESS = f"http://{TOKEN}.invalid:9/"
PATH = f"/srv/{TOKEN}/model"
MODULE = f"{TOKEN}_module:Thing"
DOTTED = f"{TOKEN}_module.Thing"
VARIABLE = f"{TOKEN.upper()}_VARIABLE"
HUB_ID = f"{TOKEN}/model"
SERVER = {"command": COMMAND, "env_from": {"A": VARIABLE}}
REMOTE = {"url": ADDRESS.replace("http:", "https:"), "headers_env": {"Authorization": VARIABLE}}
TEXTS: dict[str, str] = {
    "command": " ".join(COMMAND),
    "address": ADDRESS,
    "path": PATH,
    "module": MODULE,
    "variable": VARIABLE,
}
SETTINGS: dict[str, Any] = {
    "tools": {"type": "code_exec", "tools": {"mcp": {"x": SERVER, "y": REMOTE}}},
    "all": {
        **TEXTS,
        "url": ADDRESS,
        "base_model": PATH,
        "type": MODULE,
        "func": DOTTED,
        "args": COMMAND,
        "env_from": SERVER,
    },
}
FORMS: dict[str, Any] = {**TEXTS, **SETTINGS}
FOR_NUMBERS: dict[str, Any] = {name: FORMS[name] for name in ("path", "all")}
"""Where a number or a switch belongs no text is taken: a few are enough."""
FOR_TRAINING: dict[str, Any] = {
    **FORMS,
    "dotted": DOTTED,
    "hub id": HUB_ID,
    "list": COMMAND,
    "type": {"type": MODULE},
    "corpus": {"type": "search", "tools": {"search": {"mode": "corpus", "corpus": PATH}}},
}
KEYS = sorted(
    {each.name for method in METHODS.values() for each in fields(method.config)}
    | {*HYPER_PARAMETERS, *RUN_OPTIONS, *DATA_OPTIONS, *AGENT, *REWARDS, *GUARD_LIMITS}
    | {*SETTINGS["all"], "mcp", "tools"}
)
"""That an object of settings might have."""


def forms_for(value: Any) -> dict[str, Any]:
    """To put in the place of a value that is taken."""
    return FOR_NUMBERS if isinstance(value, bool | int | float) else FORMS


def places(value: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The keys that lead to every value inside of a JSON document, and to the document."""
    yield where
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, (*where, key))


def replaced(value: Any, where: tuple[Any, ...], by: Any) -> Any:
    """A copy with something else at one place."""
    if not where:
        return by
    copy = value.copy()
    copy[where[0]] = replaced(value[where[0]], where[1:], by)
    return copy


def inside(value: Any, where: tuple[Any, ...]) -> Any:
    for key in where:
        value = value[key]
    return value


def kinds(of: type) -> Iterator[type]:
    """All classes below a class."""
    for kind in of.__subclasses__():
        yield kind
        yield from kinds(kind)
