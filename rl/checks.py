"""Start-up checks, each with an id and a hint. ``manage.py check`` prints them; Django runs them before it serves."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

from django.conf import settings
from django.core import checks

from rl.export import EXPORTERS
from rl.training import METHODS


@checks.register
def queue_leases_outlive_tasks(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    cluster: dict[str, Any] = settings.Q_CLUSTER
    waiting = (cluster["queue_limit"] + cluster["workers"] + 1) * cluster["timeout"]
    if cluster["retry"] > waiting:
        return []
    return [
        checks.Error(
            f"Q_CLUSTER retry={cluster['retry']} is not longer than the {waiting} s that a task may wait and run.",
            hint="Tasks would be delivered twice. Raise retry, or lower timeout, workers or queue_limit.",
            id="rl.E001",
        )
    ]


@checks.register
def data_directory_is_writable(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    if os.access(settings.DATA_DIR, os.W_OK | os.X_OK):
        return []
    return [
        checks.Error(
            f"DATA_DIR {settings.DATA_DIR} is not writable.",
            hint="Models, training sets and the SQLite database live there: set DATA_DIR, or its owner.",
            id="rl.E002",
        )
    ]


@checks.register
def registered_modules_exist(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """Looks each dotted path up without importing it: most of them need torch."""
    return [
        checks.Error(f"{path}, registered as {name!r}, does not exist.", hint="Correct the registry.", id="rl.E003")
        for registry in (METHODS, EXPORTERS)
        for name, path in registry.items()
        if importlib.util.find_spec(path) is None
    ]
