"""The tests' SQLite database is a copy of one that was migrated once, kept from run to run."""

import hashlib
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.backends.sqlite3.creation import DatabaseCreation

from rl.base.locks import exclusive_lock
from tests.deeds import not_counted

KEPT = 4
"""Templates: checkouts at other commits have theirs."""


def use_template(creation: DatabaseCreation) -> None:
    """``create_test_db`` of this connection then migrates what it finds in the copy: nothing."""
    create = creation.create_test_db

    def create_test_db(*arguments: Any, **options: Any) -> str:
        target, template = Path(creation._get_test_db_name()), path()
        with not_counted(), exclusive_lock(template.with_suffix(".lock")):
            if template.exists():
                shutil.copyfile(template, target)
                return create(*arguments, **{**options, "keepdb": True})
            name = create(*arguments, **options)
            _keep(target, template)
        return name

    creation.create_test_db = create_test_db  # type: ignore[method-assign]


def path() -> Path:
    """By what the tables come from: our migrations, and the versions of the packages that bring others."""
    files = [*sorted((settings.BASE_DIR / "rl" / "migrations").glob("*.py")), settings.BASE_DIR / "requirements.txt"]
    digest = hashlib.sha256(b"\0".join(file.name.encode() + file.read_bytes() for file in files))
    digest.update(sqlite3.sqlite_version.encode())
    return Path(settings.MODEL_CACHE) / "test-databases" / f"{digest.hexdigest()[:16]}.sqlite3"


def _keep(database: Path, template: Path) -> None:
    unfinished = template.with_suffix(f".{os.getpid()}")
    connection = sqlite3.connect(database)
    connection.execute("VACUUM INTO ?", [str(unfinished)])
    connection.close()
    unfinished.replace(template)
    newest_first = sorted(template.parent.glob("*.sqlite3"), key=lambda file: file.stat().st_mtime, reverse=True)
    for old in newest_first[KEPT:]:
        old.unlink()
