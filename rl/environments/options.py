"""What the class of an environment takes as settings, read from the signatures of its ``__init__``."""

from __future__ import annotations

import inspect
import math
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from rl.environments.base import AgentEnv

_KINDS = {
    bool: (bool, "true or false"),
    int: (int, "a whole number"),
    float: (int | float, "a number"),
    str: (str, "a text"),
}


def option_types(kind: type[AgentEnv]) -> dict[str, Any]:
    """What may be given by name, and its type; those of the classes it is made from too. Any: not known."""
    types: dict[str, Any] = {}
    for base in kind.__mro__:
        if "__init__" in vars(base) and base is not object:
            hints = _hints(base)
            parameters = inspect.signature(base.__init__).parameters.values()  # type: ignore[misc]
            names = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
            types = {**{name: hints.get(name, Any) for name in names}, **types}
    return types


def wrong_type(value: Any, hint: Any) -> str:
    """What the value must be; empty where it is that, or where a configuration file cannot have the type."""
    allowed = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if any(kind is not NoneType and kind not in _KINDS for kind in allowed):
        return ""
    if any(_fits(value, kind) for kind in allowed):
        return ""
    return " or ".join(_KINDS[kind][1] for kind in allowed if kind is not NoneType)


def _fits(value: Any, kind: Any) -> bool:
    if value is None or kind is NoneType:
        return value is None and kind is NoneType
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    return isinstance(value, _KINDS[kind][0]) and not (isinstance(value, float) and not math.isfinite(value))


def _hints(kind: type) -> dict[str, Any]:
    try:
        return get_type_hints(kind.__init__)  # type: ignore[misc]
    except NameError:  # types that are imported for the type checker only
        return {}
