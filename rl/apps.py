"""The Django app.

Imports: base, checks, collect, config, data_formatter, dataset_builder, evaluation, export, from_systems, models,
    operations, rewards, scoring, tasks, web; Django."""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from django.apps import AppConfig
from django.core.exceptions import ImproperlyConfigured
from django.db.models.signals import post_migrate, pre_migrate
from django.dispatch import Signal


class RatchetConfig(AppConfig):
    name = "rl"
    verbose_name = "Ratchet"

    def ready(self) -> None:
        from corsheaders.signals import check_request_enabled
        from django_q.signals import post_spawn

        from rl import checks, tasks  # noqa: F401  registers the start-up checks
        from rl.models import run_ended
        from rl.operations import audit_signals
        from rl.operations.unfit_databases import refuse_unfit_database

        _add_other_systems()
        _add_other_packages()
        _connect(check_request_enabled, "rl.web.api.auth.allow_origin_of_publishable_key")
        _connect(check_request_enabled, "rl.from_systems.command_center.callers.allow_origin_of_page")
        _connect(run_ended, "rl.from_systems.n3.policies.write_results")
        _connect(run_ended, "rl.from_systems.openai_tuning.job_work.settle_job")
        audit_signals.connect()
        post_spawn.connect(tasks.introduce_worker)
        pre_migrate.connect(refuse_unfit_database, sender=self)
        post_migrate.connect(tasks.ensure_schedules, sender=self)


def _connect(signal: Signal, path: str) -> None:
    """``path``: the dotted name of a receiver, which is imported when there is something to receive: half of what it needs
    is of no use to a command."""
    from rl.base.leaves import import_name

    def receive(sender: object, **values: Any) -> object:
        return import_name(path)(sender=sender, **values)

    signal.connect(receive, weak=False, dispatch_uid=path)


def _add_other_systems() -> None:
    """Adds what the tables of ``rl.from_systems`` name."""
    from rl import from_systems
    from rl.base.leaves import import_name
    from rl.collect.importers import IMPORTERS
    from rl.collect.importers.newcomers import AGENT_DEFAULTS
    from rl.config.lengths import LENGTHS, Lengths
    from rl.config.reward_weights import DECISION_WEIGHTS
    from rl.data_formatter import wording
    from rl.dataset_builder import exporting
    from rl.evaluation import DECIDING_FIELDS
    from rl.from_systems.ocd.formulas import WEIGHTS
    from rl.rewards.decision import FORMULAS
    from rl.scoring.rollouts import GRADERS
    from rl.web import rating_filters

    IMPORTERS.update(from_systems.FORMATS)
    AGENT_DEFAULTS.update(from_systems.AGENT_DEFAULTS)
    rating_filters.DRAWINGS.update(from_systems.DRAWINGS)
    rating_filters.TAGS_OF.update({source: import_name(path) for source, path in from_systems.TAGS.items()})
    filters = {source: import_name(path) for source, path in from_systems.RATING_FILTERS.items()}
    rating_filters.FILTERS.update(filters)
    wording.PROMPT_TEMPLATES.update(from_systems.PROMPT_TEMPLATES)
    wording.ANSWER_TEMPLATES.update(from_systems.ANSWER_TEMPLATES)
    wording.DECISION_PROMPTS.update(from_systems.DECISION_PROMPTS)
    exporting.FORMATS.update(from_systems.ROW_FORMATS)
    FORMULAS.update(from_systems.DECISION_FORMULAS)
    DECISION_WEIGHTS.update(WEIGHTS)
    LENGTHS.update({name: Lengths(*both) for name, both in from_systems.LENGTHS.items()})
    DECIDING_FIELDS.update(from_systems.DECIDING_FIELDS)
    GRADERS.update(from_systems.GRADERS)


def _add_other_packages() -> None:
    """Adds what their entry points name. Raises ImproperlyConfigured for a name that is there already."""
    from rl.collect.importers import IMPORTERS
    from rl.config import METHODS
    from rl.config.guard_limits import CAPTIONS, GUARD_LIMITS
    from rl.dataset_builder.exporting import FORMATS
    from rl.export import EXPORTERS
    from rl.rewards import REWARDS

    points = entry_points()
    paths = {"importers": IMPORTERS, "row_formats": FORMATS, "exporters": EXPORTERS, "rewards": REWARDS}
    for group, table in paths.items():
        for point in points.select(group=f"ratchet.{group}"):
            _add(point, table, point.value.replace(":", "."))
    for point in points.select(group="ratchet.methods"):
        _add(point, METHODS, point.load())
    for point in points.select(group="ratchet.guard_rails"):
        from rl.evaluation.guards.rails import EXAMINERS

        rail, examine = point.load()
        _add(point, GUARD_LIMITS, rail.limit)
        CAPTIONS[point.name], EXAMINERS[point.name] = rail.kept, examine


def _add(point: EntryPoint, table: dict[str, Any], value: object) -> None:
    if point.name in table:
        raise ImproperlyConfigured(f"{point.value}: {point.group} has a {point.name!r} already; uninstall the package")
    table[point.name] = value
