"""Training methods by name. A method is a module with ``train(job: TrainingJob, report: Report) -> TrainingResult``."""

from __future__ import annotations

from types import ModuleType

from rl.errors import UsageError
from rl.leaves import leaf

METHODS: dict[str, str] = {
    "dpo": "rl.training.dpo",
    "kto": "rl.training.kto",
}


def method_path(name: str) -> str:
    """The dotted path of a method's module, which is not imported. Raises UsageError that lists the known names."""
    try:
        return METHODS[name]
    except KeyError:
        raise UsageError(f"unknown training method {name!r}; known: {', '.join(METHODS)}") from None


def method(name: str) -> ModuleType:
    """The method's module, imported on first use because it brings torch along."""
    return leaf(method_path(name))
