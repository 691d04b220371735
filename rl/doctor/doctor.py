"""Looks at the whole installation, and says for everything that is wrong what to do."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from django.db import DatabaseError

from rl.base.errors import BackupFailed
from rl.doctor import Severity, Symptom, data, machine, models, problem, site

Check = Callable[[], Iterator[Symptom]]
DATABASE = "database"
WITHOUT_DATABASE: dict[str, Check] = {
    "python": machine.python,
    "packages": machine.packages,
    "disk space": machine.disk_space,
    "checks": site.system_checks,
    "debug": site.debugging,
    "secret key": site.secret_key,
    "addresses": site.addresses,
    "pending answers": data.pending_answers,
    "database files": data.database_files,
    DATABASE: data.database,
}
WITH_DATABASE: dict[str, Check] = {
    "clock": machine.clock,
    "queue": data.queue,
    "runs": data.runs,
    "backups": data.latest_backup,
    "keys": data.keys,
    "base models": models.base_models,
    "Ollama": models.ollama,
    "llama.cpp": models.llama_cpp,
    "judges": models.judges,
}


@dataclass(frozen=True)
class Examined:
    check: str
    symptom: Symptom


def examine() -> list[Examined]:
    examined = [finding for name, check in WITHOUT_DATABASE.items() for finding in _run_check(name, check)]
    if any(finding.check == DATABASE and finding.symptom.severity == Severity.PROBLEM for finding in examined):
        return examined  # each of the others would wait for it
    return examined + [finding for name, check in WITH_DATABASE.items() for finding in _run_check(name, check)]


def is_healthy(examined: list[Examined]) -> bool:
    """Warnings alone do not count against it."""
    return all(finding.symptom.severity != Severity.PROBLEM for finding in examined)


def _run_check(name: str, check: Check) -> list[Examined]:
    """A check that breaks is a symptom itself, and must not keep the others from being made."""
    try:
        return [Examined(name, symptom) for symptom in check()]
    except (DatabaseError, BackupFailed) as error:
        fix = "start it, check DATABASE_URL, and run this again: what needs the database was not checked"
        return [Examined(name, problem(str(error).strip(), fix))]
    except Exception as error:  # noqa: BLE001  becomes a symptom
        broken = f"could not be checked: {type(error).__name__}: {error}"
        return [Examined(name, problem(broken, "this is a bug of Ratchet; please report it"))]
