from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class RatchetConfig(AppConfig):
    name = "rl"
    verbose_name = "Ratchet"

    def ready(self) -> None:
        from corsheaders.signals import check_request_enabled

        from rl import checks, tasks  # noqa: F401  registers the start-up checks
        from rl.web.api.cors import allow_origin_of_publishable_key

        check_request_enabled.connect(allow_origin_of_publishable_key)
        post_migrate.connect(tasks.ensure_schedules, sender=self)
