"""What trains, exports and deploys needs Ratchet's settings. A script of one's own gets them here."""

from __future__ import annotations

import os

from django.apps import apps


def set_up_site() -> None:
    """As a command of ``manage.py`` does before it starts; nothing where that is done. Raises ImproperlyConfigured for wrong
    or missing settings, which ``manage.py quickstart`` makes."""
    if not apps.ready:
        import django

        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backend.settings")
        django.setup()
