"""The Django app.

Imports: checks, collect, config, dataset_builder, from_systems, operations, rewards, tasks, web; Django.
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
        from rl.config.reward_weights import DECISION_WEIGHTS
        from rl.dataset_builder import exporting
        from rl.from_systems.command_center.callers import allow_origin_of_page
        from rl.from_systems.n3 import results
        from rl.from_systems.ocd.weights import WEIGHTS
        from rl.operations import audit_signals
        from rl.rewards.decision import FORMULAS
        from rl.web.api.cors import allow_origin_of_publishable_key

        IMPORTERS.update(from_systems.FORMATS)
        exporting.FORMATS.update(from_systems.ROW_FORMATS)
        FORMULAS.update(from_systems.DECISION_FORMULAS)
        DECISION_WEIGHTS.update(WEIGHTS)
        check_request_enabled.connect(allow_origin_of_publishable_key)
        check_request_enabled.connect(allow_origin_of_page)
        audit_signals.connect()
        results.connect()
        post_spawn.connect(tasks.introduce_worker)
        post_migrate.connect(tasks.ensure_schedules, sender=self)
