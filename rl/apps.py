from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class RatchetConfig(AppConfig):
    name = "rl"
    verbose_name = "Ratchet"

    def ready(self) -> None:
        from rl import checks, tasks  # noqa: F401  registers the start-up checks

        post_migrate.connect(tasks.ensure_schedules, sender=self)
