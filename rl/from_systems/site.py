"""What trains, exports and deploys needs Ratchet's settings. A script of one's own gets them here."""

from __future__ import annotations

import os

from django.apps import apps

from rl.base.leaves import import_name
from rl.base.records import silent


def set_up_site() -> None:
    """As a command of ``manage.py`` does before it starts; nothing where that is done. Raises ImproperlyConfigured for wrong
    or missing settings, which ``manage.py quickstart`` makes."""
    if not apps.ready:
        import django

        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backend.settings")
        django.setup()


def resolve_base_model(name: str) -> str:
    """A folder or a hub id that can be loaded. Raises UsageError, and what ``set_up_site`` raises."""
    set_up_site()
    base: str = import_name("rl.lm.base_models.resolve")(name, silent)
    return base
