"""The Django app.

Imports: checks, collect, from_systems, operations, tasks, web; Django.
"""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class RatchetConfig(AppConfig):
    name = "rl"
    verbose_name = "Ratchet"

    def ready(self) -> None:
        from corsheaders.signals import check_request_enabled
        from django_q.signals import post_spawn

        from rl import checks, from_systems, tasks  # noqa: F401  registers the start-up checks
        from rl.collect.importers import IMPORTERS
        from rl.from_systems.n3 import results
        from rl.operations import audit_signals
        from rl.web.api.cors import allow_origin_of_publishable_key

        IMPORTERS.update(from_systems.FORMATS)
        check_request_enabled.connect(allow_origin_of_publishable_key)
        audit_signals.connect()
        results.connect()
        post_spawn.connect(tasks.introduce_worker)
        post_migrate.connect(tasks.ensure_schedules, sender=self)
