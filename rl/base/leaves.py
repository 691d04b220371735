"""What only a registry names, imported on first use because it may bring torch along."""

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

from rl.base.errors import UsageError


@contextmanager
def not_collected() -> Iterator[None]:
    """Nothing is looked for inside. For imports: what they make stays, and while the training libraries are imported, the
    collector would go through half a million such objects again and again.

    Where torch came inside, it never goes through what is there now: no model of an earlier training is among it."""
    was_on, had_torch = gc.isenabled(), "torch" in sys.modules
    gc.disable()
    try:
        yield
    finally:
        if not had_torch and "torch" in sys.modules:
            gc.freeze()
        if was_on:
            gc.enable()


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
