"""Queue entry points. Each is short and idempotent: the queue delivers tasks again when it is in doubt.

Imports: base, collect, forgetting, from_systems, models, online_learner, operations, runs, scoring, serving, trust; Django.
"""

import logging
from typing import Any

from django.conf import settings

from rl.base.disk_space import shortage
from rl.base.errors import RunConflict
from rl.models import TrainingRun
from rl.operations import audit

logger = logging.getLogger(__name__)
EXPORT_SECONDS = 1200
"""The longest that an export may take in the queue; its lease is longer."""


def start_run(run_id: int) -> bool:
    """Starts the process of a queued run; False when it has been started or cancelled already."""
    from rl.runs import supervisor

    run = TrainingRun.objects.filter(pk=run_id).first()
    return run is not None and supervisor.start(run)


def deploy_version(version_id: int, actor: str) -> str:
    """Deploys what a page asked for."""
    from rl.serving import overview

    return overview.deploy_now(version_id, actor)


def supervise_runs() -> dict[str, int]:
    """Once a minute: resumes or fails the runs whose process died or hangs."""
    from rl.runs import supervisor

    return supervisor.supervise()


def consider_retraining() -> list[int]:
    """Once a minute: queues a run for each agent that is due."""
    from rl import online_learner

    return [run.pk for run in online_learner.tick()]


def supervise_servers() -> dict[str, int]:
    """Once a minute: starts llama.cpp servers and judges that died, and ends those that nothing needs."""
    from rl.serving import judge_server, llama_server

    counts = llama_server.supervise()
    judges = judge_server.supervise()
    return {name: count + judges[name] for name, count in counts.items()}


def look_at_experiments() -> list[int]:
    """Once a minute: ends the running experiments whose answer is clear."""
    from rl.serving.experiments import lifecycle

    return [experiment.pk for experiment in lifecycle.tick()]


def look_at_promotions() -> list[str]:
    """Once a minute: takes back versions on probation whose ratings are worse than those of the version before."""
    from rl.serving import probation

    return [taken.version.name for taken in probation.tick()]


def look_at_duels() -> list[int]:
    """Once a minute: acts on what people's picks have decided about new versions, each in a task of its own."""
    from django_q.tasks import async_task

    from rl.runs import duels

    due = [evaluation.pk for evaluation in duels.find_waiting() if duels.is_due(evaluation)]
    for number in due:
        async_task("rl.tasks.settle_duels", number, timeout=EXPORT_SECONDS)
    return due


def settle_duels(evaluation_id: int) -> str:
    """The verdict of people's picks; empty where the version is gone. Exports it where they promote it."""
    from rl.models import Evaluation
    from rl.runs import duels

    rows = Evaluation.objects.select_related("version__agent", "version__run", "against")
    evaluation = rows.filter(pk=evaluation_id).first()
    return str(duels.settle(evaluation).verdict) if evaluation else ""


def look_at_raters() -> list[int]:
    """Once a minute: holds back feedback that no person gave by hand."""
    from rl.trust import quarantine

    return [row.pk for row in quarantine.look()]


def make_second_answers() -> int:
    """Once a minute, when the machine is idle: another answer to what people asked."""
    from rl.serving import second_answers

    return second_answers.tick()


def deliver_answers() -> int:
    """Once a minute: stores the gateway's answers that a process could not store before it ended."""
    from rl.serving.gateway import pending

    return pending.deliver_all()


def watch_disk() -> str:
    """Once a minute: tells the log when there is little room."""
    if warning := shortage(settings.DATA_DIR, settings.MIN_FREE_BYTES):
        logger.warning("%s (MIN_FREE_BYTES)", warning)
    return warning


def calculate_rewards() -> dict[str, int]:
    """Once a day, and when asked: computes the rewards of traces that wait, for some seconds; the rest comes again."""
    from rl.scoring import stored as rewarding

    report = rewarding.deliver()
    return {"read": report.read, "rewarded": report.rewarded, "broken": report.broken} if report else {}


def erase_deleted() -> str:
    """When a person was forgotten on a page: cleans the database's files of what was deleted. Raises RunConflict."""
    from rl.forgetting import erasing

    if left := erasing.erase_deleted():
        raise RunConflict(left)
    return "the database's files are clean"


def forget_pending_spans() -> int:
    """Once a day: gives up on spans whose answer did not come."""
    from rl.collect.traces import spans

    return spans.forget_pending()


def introduce_worker(**kwargs: Any) -> None:
    """What a worker of the queue does, nobody asked for by name."""
    audit.name_process(audit.QUEUE)


def delete_expired() -> dict[str, int]:
    """Once a day: deletes what is kept no longer, for a minute; the rest goes to the end of the queue."""
    from django_q.tasks import async_task

    from rl.from_systems.openai_tuning import stored_files
    from rl.operations import retention

    files = stored_files.sweep()
    rows, finished = retention.delete_expired(seconds=60)
    if not finished:
        async_task("rl.tasks.delete_expired")
    return {row.kind: row.count for row in rows if row.count} | ({"uploaded files": files} if files else {})


def deliver_webhooks() -> dict[str, int]:
    """Once a minute: sends the messages of webhooks that wait."""
    from rl.operations.webhooks import delivering

    return delivering.deliver_due()


def fetch_sources() -> dict[str, int]:
    """Once a minute: asks the systems of SOURCES_FILE for what people said of answers there."""
    from rl.from_systems.sources import fetching

    return fetching.fetch_all()


def ensure_schedules(**kwargs: Any) -> None:
    """Creates the periodic tasks, once; what the operator changed about them stays."""
    from django_q.models import Schedule

    each_minute = (
        *("supervise_runs", "consider_retraining", "supervise_servers", "look_at_experiments"),
        *("look_at_promotions", "look_at_duels", "look_at_raters", "make_second_answers"),
        *("deliver_answers", "deliver_webhooks", "fetch_sources", "watch_disk"),
    )
    for name in each_minute:
        Schedule.objects.get_or_create(
            name=name, defaults={"func": f"rl.tasks.{name}", "schedule_type": Schedule.MINUTES, "minutes": 1}
        )
    for name in ("calculate_rewards", "forget_pending_spans", "delete_expired"):
        Schedule.objects.get_or_create(
            name=name, defaults={"func": f"rl.tasks.{name}", "schedule_type": Schedule.DAILY}
        )
