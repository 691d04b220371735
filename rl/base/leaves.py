"""What only a registry names, imported on first use because it may bring torch along."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from rl.base.errors import UsageError
from rl.base.garbage import not_collected


def _load(path: str) -> ModuleType:
    with not_collected():
        return import_module(path)


def leaf(path: str) -> ModuleType:
    """Raises UsageError on a machine that can run the site and has no machine-learning packages."""
    try:
        return _load(path)
    except ModuleNotFoundError as error:
        missing = error.name or str(error)
        if missing.partition(".")[0] == "rl":
            raise
        raise UsageError(
            f"the package {missing} is not installed; training, measuring and exporting need: "
            "pip install -r requirements-rl.txt"
        ) from error


def leaf_name(path: str) -> Any:
    """The class or function at a dotted path, with the same errors."""
    return import_name(path, leaf)


def lazy_name(module: str, name: str, paths: Mapping[str, str]) -> Any:
    """For the ``__getattr__`` of a package with names that need more than the package itself: they are imported when
    somebody asks for them. ``paths``: name to dotted path."""
    if name not in paths:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return import_name(paths[name])


def import_name(path: str, load: Callable[[str], ModuleType] = _load) -> Any:
    """The class or function at a dotted path. Raises what the import raises, and AttributeError."""
    module, _, name = path.rpartition(".")
    return getattr(load(module), name)
