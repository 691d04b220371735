"""Which experiment trackers a run may be followed by, and whether they are installed."""

from __future__ import annotations

import importlib.util

from rl.base.errors import UsageError
from rl.base.names import require_known

TRACKERS = {
    "tensorboard": ("tensorboard", "tensorboardX"),
    "trackio": ("trackio",),
    "mlflow": ("mlflow",),
    "wandb": ("wandb",),
}
"""Name to the packages of which one must be there."""


def tracker_names(text: str) -> tuple[str, ...]:
    """``text``: names with commas between. Raises UsageError for an unknown name and a missing package."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        require_known("tracker of --report-to", name, TRACKERS)
        if not any(importlib.util.find_spec(package) for package in TRACKERS[name]):
            package = TRACKERS[name][0]
            raise UsageError(f"--report-to {name} needs the package {package}: pip install {package}")
    return names
