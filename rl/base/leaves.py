"""What only a registry names, imported on first use because it may bring torch along."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from rl.base.errors import UsageError


def leaf(path: str) -> ModuleType:
    """Raises UsageError on a machine that can run the site and has no machine-learning packages."""
    try:
        return import_module(path)
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
    module, _, name = path.rpartition(".")
    return getattr(leaf(module), name)
