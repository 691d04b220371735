"""Start-up checks, each with an id and a hint. ``manage.py check`` prints them; Django runs them before it serves."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

from django.conf import settings
from django.core import checks

from rl import sandbox
from rl.errors import SandboxUnavailable, UsageError
from rl.export import EXPORTERS
from rl.rewards import REWARDS
from rl.rewards.custom import load_rewards
from rl.training import METHODS

_SANDBOX_HINT = (
    "Nothing is run unprotected: rewards that run code are left out. Install bubblewrap and libseccomp2 (Debian, Ubuntu: "
    "apt install bubblewrap libseccomp2) and see docs/sandbox.md for Ubuntu 24.04 and Docker."
)


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
        for registry in (METHODS, EXPORTERS, REWARDS, sandbox.BACKENDS)
        for name, path in registry.items()
        if importlib.util.find_spec(_module_of(path)) is None
    ]


@checks.register
def custom_rewards_can_be_loaded(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    try:
        load_rewards(settings.CUSTOM_REWARDS)
    except UsageError as error:
        hint = "Correct CUSTOM_REWARDS (name=package.module.Class, comma-separated), or install the package."
        return [checks.Error(f"CUSTOM_REWARDS: {error}.", hint=hint, id="rl.E004")]
    return []


def _module_of(path: str) -> str:
    """Of a class, which begins with a capital letter, or of a module."""
    module, _, name = path.rpartition(".")
    return module if name[:1].isupper() else path


@checks.register
def untrusted_code_can_be_run(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """Without it rewards that run code abstain; everything else works."""
    try:
        sandbox.ensure_available()
    except (OSError, SandboxUnavailable) as error:  # OSError: no space, or no descriptors, left to try it with
        return [checks.Warning(str(error), hint=_SANDBOX_HINT, id="rl.W001")]
    return []
