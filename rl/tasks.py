"""Queue entry points. Each is short and idempotent: the queue delivers tasks again when it is in doubt."""

from __future__ import annotations

from typing import Any

from rl.models import TrainingRun


def start_run(run_id: int) -> bool:
    """Starts the process of a queued run; False when it has been started or cancelled already."""
    from rl.training import supervisor

    run = TrainingRun.objects.filter(pk=run_id).first()
    return run is not None and supervisor.start(run)


def supervise_runs() -> dict[str, int]:
    """Once a minute: resumes or fails the runs whose process died or hangs."""
    from rl.training import supervisor

    return supervisor.supervise()


def consider_retraining() -> list[int]:
    """Once a minute: queues a run for each agent that is due."""
    from rl import online_learner

    return [run.pk for run in online_learner.tick()]


def supervise_servers() -> dict[str, int]:
    """Once a minute: starts llama.cpp servers that died, and ends those that no deployment names."""
    from rl.serving import llama_server

    return llama_server.supervise()


def look_at_experiments() -> list[int]:
    """Once a minute: ends the running experiments whose answer is clear."""
    from rl.serving.experiments import lifecycle

    return [experiment.pk for experiment in lifecycle.tick()]


def deliver_answers() -> int:
    """Once a minute: stores the gateway's answers that a process could not store before it ended."""
    from rl.serving.gateway import pending

    return pending.deliver_all()


def calculate_rewards() -> dict[str, int]:
    """Once a day, and when asked: computes the rewards of traces that wait, for some seconds; the rest comes again."""
    from rl import rewarding

    found = rewarding.deliver()
    return {"read": found.read, "rewarded": found.rewarded, "broken": found.broken} if found else {}


def forget_pending_spans() -> int:
    """Once a day: gives up on spans whose answer did not come."""
    from rl.collect import spans

    return spans.forget_pending()


def ensure_schedules(**kwargs: Any) -> None:
    """Creates the periodic tasks, once; a person may change or switch them off in the admin afterwards."""
    from django_q.models import Schedule

    each_minute = (
        "supervise_runs",
        "consider_retraining",
        "supervise_servers",
        "look_at_experiments",
        "deliver_answers",
    )
    for name in each_minute:
        Schedule.objects.get_or_create(
            name=name, defaults={"func": f"rl.tasks.{name}", "schedule_type": Schedule.MINUTES, "minutes": 1}
        )
    for name in ("calculate_rewards", "forget_pending_spans"):
        Schedule.objects.get_or_create(
            name=name, defaults={"func": f"rl.tasks.{name}", "schedule_type": Schedule.DAILY}
        )
