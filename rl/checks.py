"""Start-up checks, each with an id and a hint. ``manage.py check`` prints them; Django runs them before it serves.

Imports: base, config, evaluation, export, from_systems, operations, rewards, sandbox; Django."""

import importlib.util
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.core import checks

from backend.data_folder import OWNER_ONLY
from rl import sandbox
from rl.base.disk_space import shortage
from rl.base.errors import BadFile, JudgeFailed, SandboxUnavailable, UsageError
from rl.config import METHODS
from rl.evaluation.judges.servers import servers
from rl.export import EXPORTERS
from rl.from_systems.sources.registered import sources
from rl.operations.webhooks.endpoints import endpoints
from rl.rewards import REWARDS
from rl.rewards.engine import load_rewards

TAG: Final = "rl"
_SANDBOX_HINT = (
    "Nothing is run unprotected: rewards that run code are left out. Install bubblewrap and libseccomp2 (Debian, Ubuntu: "
    "apt install bubblewrap libseccomp2) and see docs/sandbox.md for Ubuntu 24.04 and Docker."
)


@checks.register(TAG)
def queue_leases_outlive_tasks(**kwargs: Any) -> list[checks.CheckMessage]:
    cluster: dict[str, Any] = settings.Q_CLUSTER
    waiting = (cluster["queue_limit"] + cluster["workers"] + 1) * cluster["timeout"]
    problem = f"Q_CLUSTER retry={cluster['retry']} is not longer than the {waiting} s that a task may wait and run."
    hint = "Tasks would be delivered twice. Raise retry, or lower timeout, workers or queue_limit."
    return [] if cluster["retry"] > waiting else [checks.Error(problem, hint=hint, id="rl.E001")]


@checks.register(TAG)
def data_directory_is_writable(**kwargs: Any) -> list[checks.CheckMessage]:
    if os.access(settings.DATA_DIR, os.W_OK | os.X_OK):
        return []
    hint = "Models, training sets and the SQLite database live there: set DATA_DIR, or its owner."
    return [checks.Error(f"DATA_DIR {settings.DATA_DIR} is not writable.", hint=hint, id="rl.E002")]


@checks.register(TAG)
def data_is_for_its_owner_alone(**kwargs: Any) -> list[checks.CheckMessage]:
    return [
        checks.Warning(
            f"{path} is open to others than its owner ({stat.filemode(path.stat().st_mode)}).",
            hint=f"It holds sessions, passwords' hashes or keys: chmod {'-R ' if path.is_dir() else ''}go= {path}",
            id="rl.W002",
        )
        for path in _private_paths()
        if os.name == "posix" and path.stat().st_mode & OWNER_ONLY
    ]


def _private_paths() -> list[Path]:
    """What is in a folder that others cannot enter is out of their reach, whatever its own permissions."""
    database = settings.DATABASES["default"]
    files = [settings.ENV_PATH]
    if str(database["ENGINE"]).endswith("sqlite3"):
        beside = [Path(f"{database['NAME']}{end}") for end in ("", "-wal", "-shm")]
        files += [path for path in beside if path.parent != settings.DATA_DIR]
    return [path for path in (settings.DATA_DIR, *files) if path.is_dir() or path.is_file()]


@checks.register(TAG)
def there_is_room_for_data(**kwargs: Any) -> list[checks.CheckMessage]:
    if not (settings.DATA_DIR.is_dir() and (message := shortage(settings.DATA_DIR, settings.MIN_FREE_BYTES))):
        return []
    hint = "Without room, ratings and answers are refused: free some, or set MIN_FREE_BYTES. See docs/operations.md."
    return [checks.Warning(f"{message} (MIN_FREE_BYTES).", hint=hint, id="rl.W003")]


@checks.register(TAG)
def registered_modules_exist(**kwargs: Any) -> list[checks.CheckMessage]:
    """Looks each dotted path up without importing it: most of them need torch."""
    modules_of_methods = {name: method.module for name, method in METHODS.items()}
    return [
        checks.Error(f"{path}, registered as {name!r}, does not exist.", hint="Correct the registry.", id="rl.E003")
        for registry in (modules_of_methods, EXPORTERS, REWARDS, sandbox.BACKENDS)
        for name, path in registry.items()
        if importlib.util.find_spec(_module_of(path)) is None
    ]


@checks.register(TAG)
def custom_rewards_can_be_loaded(**kwargs: Any) -> list[checks.CheckMessage]:
    try:
        load_rewards(settings.CUSTOM_REWARDS)
    except UsageError as error:
        hint = "Correct CUSTOM_REWARDS (name=package.module.Class, comma-separated), or install the package."
        return [checks.Error(f"CUSTOM_REWARDS: {error}.", hint=hint, id="rl.E004")]
    return []


@checks.register(TAG)
def webhooks_can_be_told(**kwargs: Any) -> list[checks.CheckMessage]:
    try:
        known = endpoints()
    except BadFile as error:
        return [checks.Error(f"WEBHOOKS_FILE: {error}.", hint="Correct it; see docs/webhooks.md.", id="rl.E005")]
    hint = "The queue needs it; the other processes do not."
    return list(_without_key("WEBHOOKS_FILE", known, hint, "rl.W004"))


@checks.register(TAG)
def judges_can_be_asked(**kwargs: Any) -> list[checks.CheckMessage]:
    try:
        known = servers()
    except BadFile as error:
        hint = "Correct it; see 'Another judge' in docs/evaluation.md."
        return [checks.Error(f"JUDGES_FILE: {error}.", hint=hint, id="rl.E006")]
    hint = "Evaluations need it; the other processes do not."
    return list(_without_key("JUDGES_FILE", known, hint, "rl.W006"))


@checks.register(TAG)
def sources_can_be_asked(**kwargs: Any) -> list[checks.CheckMessage]:
    try:
        known = sources()
    except BadFile as error:
        hint = "Correct it; see docs/coming-from/open-webui.md."
        return [checks.Error(f"SOURCES_FILE: {error}.", hint=hint, id="rl.E007")]
    hint = "The queue needs it; the other processes do not."
    return list(_without_key("SOURCES_FILE", known, hint, "rl.W007"))


def _without_key(setting: str, known: Mapping[str, Any], hint: str, code: str) -> Iterator[checks.CheckMessage]:
    for entry in known.values():
        try:
            entry.key()
        except (UsageError, JudgeFailed) as error:
            yield checks.Warning(f"{setting}: {error}.", hint=hint, id=code)


@checks.register(TAG)
def clients_are_told_apart(**kwargs: Any) -> list[checks.CheckMessage]:
    """Limits are counted by address."""
    if not settings.SECURE_PROXY_SSL_HEADER or settings.REST_FRAMEWORK["NUM_PROXIES"]:
        return []
    problem = "BEHIND_PROXY is set and NUM_PROXIES is 0: all clients have the proxy's address."
    hint = "Set NUM_PROXIES to the number of your proxies; else twenty wrong passwords of anybody lock everybody out."
    return [checks.Warning(problem, hint=hint, id="rl.W005")]


def _module_of(path: str) -> str:
    """The module of a class, whose name begins with a capital letter; the path itself where it is a module's."""
    module, _, name = path.rpartition(".")
    return module if name[:1].isupper() else path


@checks.register(TAG)
def untrusted_code_can_be_run(**kwargs: Any) -> list[checks.CheckMessage]:
    """Without it rewards that run code abstain; everything else works."""
    try:
        sandbox.ensure_available()
    except (OSError, SandboxUnavailable) as error:  # OSError: no space, or no descriptors, left to try it with
        return [checks.Warning(str(error), hint=_SANDBOX_HINT, id="rl.W001")]
    return []
