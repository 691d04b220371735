"""Ratchet's settings for a benchmark that no command of ``manage.py`` starts."""

import os
import sys
from pathlib import Path

import django


def set_up() -> None:
    """Before anything of ``rl`` is imported. The variables of the shell win."""
    os.environ.setdefault("DEBUG", "1")
    os.environ.setdefault("SECRET_KEY", "only-for-this-benchmark-" + "x" * 40)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backend.settings")
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    django.setup()
