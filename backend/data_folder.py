"""DATA_DIR and what is written in it are for their owner alone: sessions, password hashes, what people wrote to agents."""

import os
from pathlib import Path

OWNER_ONLY = 0o077
"""The umask of every process of Ratchet, and the permissions that nothing in DATA_DIR has."""
_OTHERS = 0o007


def prepare(folder: Path, is_ours: bool) -> None:
    """Makes the folder. One that is there, that others can enter and that is known to hold nothing but our data is closed to
    them; what a person opened for a group stays open, and ``manage.py check`` speaks of it. Raises OSError."""
    os.umask(OWNER_ONLY)
    folder.mkdir(parents=True, exist_ok=True)
    is_ours = is_ours or (folder / "db.sqlite3").exists()
    if is_ours and folder.stat().st_mode & _OTHERS and _belongs_to_us(folder):
        folder.chmod(0o700)


def _belongs_to_us(folder: Path) -> bool:
    return os.name == "posix" and folder.stat().st_uid == os.geteuid()
