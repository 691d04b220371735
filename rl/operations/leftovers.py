"""What killed processes left half written: exports, uploads, backups, frozen sets, whatever ``rl.base.files`` stages."""

from __future__ import annotations

import os
from pathlib import Path

from django.conf import settings

from rl.base.files import remove_leftovers


def clear_leftovers() -> list[Path]:
    """Removes it below DATA_DIR and in BACKUP_DIR; the site and the queue do so when they start. What was removed."""
    gone = remove_leftovers(settings.BACKUP_DIR)
    for folder, names, _ in os.walk(settings.DATA_DIR):
        gone += remove_leftovers(Path(folder))
        names[:] = [name for name in names if not name.endswith(".partial")]
    return gone
