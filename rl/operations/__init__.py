"""What an operator does: backups, a look at the installation, retention."""

from __future__ import annotations
