"""Command Center's one global learner, over an agent's. Nothing is kept in memory: ratings are rows, and runs are queued."""

from collections.abc import Callable, Mapping
from typing import Any

from django.utils import timezone
from rest_framework.exceptions import ValidationError

from rl import online_learner
from rl.base.errors import RatchetError, UsageError
from rl.base.records import silent
from rl.collect.importers.newcomers import settle_in
from rl.from_systems.command_center.callers import PageCaller
from rl.from_systems.command_center.rows import SOURCE, OneRating, store, thumb_of
from rl.from_systems.command_center.trainer import the_agent
from rl.models import Agent, TrainingRun
from rl.runs import run as runs
from rl.web.api.problems import summary


class OnlineLearner:
    """The settings of ``init_online_learner`` are the agent's from then on."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self._core = online_learner.OnlineLearner(agent)

    def add_feedback(self, feedback: Mapping[str, Any]) -> bool:
        """``entry_id`` and ``rating`` (up or down), and where known ``tags``, ``notes``, ``rated_at``, ``device_id``.

        A rating of an entry that is not imported waits for it. Whether it is time to retrain. Raises ValueError."""
        body = {"rated_at": timezone.now().isoformat(), **feedback}
        if not body.get("entry_id") or body.get("rating") not in ("up", "down"):
            raise ValueError("feedback needs entry_id, and rating as up or down")
        try:
            data = OneRating().run_validation(body)
        except ValidationError as error:
            raise ValueError(summary(error)) from None
        thumb = thumb_of(data, data["entry_id"], data["device_id"])
        [outcome] = store(PageCaller(None, self.agent.pk), [thumb])
        if isinstance(outcome, UsageError):
            raise ValueError(str(outcome))
        return self.should_retrain()

    def should_retrain(self) -> bool:
        return self._core.should_retrain()

    def trigger_retrain(self, async_mode: bool = True) -> bool:
        """Queues a run; with ``async_mode=False`` works on it here until it ends. Whether there is one, and that it ended
        well."""
        try:
            run = self._core.trigger_retrain()
            if not async_mode:
                run.claim()
                runs.execute(run, silent)
        except RatchetError:
            return False
        return True

    def get_status(self) -> dict[str, Any]:
        return status_of(self.agent)

    def clear_buffer(self) -> None:
        """Does nothing: what people said is never thrown away. Retract single ratings instead."""

    def force_save(self) -> None:
        """Does nothing: every rating is in the database when ``add_feedback`` returns."""


def status_of(agent: Agent) -> dict[str, Any]:
    status = online_learner.OnlineLearner(agent).get_status()
    ended = agent.runs.filter(state=TrainingRun.State.SUCCEEDED).order_by("-finished_at")
    last = ended.values_list("finished_at", flat=True).first()
    return {
        "buffer_size": status.buffer_size,
        "min_samples": status.min_samples,
        "is_training": status.is_training,
        "last_train_time": last.isoformat() if last else None,
        "train_count": ended.count(),
        "should_retrain": status.should_retrain,
        "auto_export": agent.auto_export,
        "auto_deploy": agent.auto_deploy,
        "reason": status.reason,
    }


def init_online_learner(
    min_samples: int | None = None,
    max_buffer_size: int | None = None,
    retrain_interval_hours: int | None = None,
    checkpoint_dir: str | None = None,
    auto_export: bool | None = None,
    auto_deploy: bool | None = None,
    on_retrain_complete: Callable[..., object] | None = None,
    agent: str | None = None,
) -> OnlineLearner:
    """Switches online learning on for ``agent``, by default the only one with widgets, made where there is none. Also needs
    ENABLE_ONLINE_LEARNING=1 and the queue. Raises ValueError for what has no meaning here."""
    for name, value in {"max_buffer_size": max_buffer_size, "checkpoint_dir": checkpoint_dir}.items():
        if value is not None:
            raise ValueError(f"{name} has no meaning here: ratings are rows of the database")
    if on_retrain_complete is not None:
        raise ValueError("on_retrain_complete: runs end in another process; WEBHOOKS_FILE names who is told")
    name = agent or the_agent()
    row = Agent.objects.filter(name__iexact=name).first()
    if row is None:
        row = Agent.new(name)
        settle_in(row, SOURCE)
    chosen = {"min_samples_to_retrain": min_samples, "retrain_interval_hours": retrain_interval_hours}
    for field, value in {**chosen, "auto_export": auto_export, "auto_deploy": auto_deploy}.items():
        if value is not None:
            setattr(row, field, value)
    row.online_learning = True
    row.full_clean()
    row.save()
    return OnlineLearner(row)


def get_online_learner(agent: str | None = None) -> OnlineLearner | None:
    """The same in every process: of ``agent``, by default the one that ``init_online_learner`` takes. None where online
    learning is off, for the agent or by ENABLE_ONLINE_LEARNING."""
    row = Agent.objects.filter(name__iexact=agent or the_agent()).first()
    return OnlineLearner(row) if row and online_learner.is_enabled(row) else None


def shutdown_online_learner(agent: str | None = None) -> None:
    """The agent learns by itself no longer."""
    Agent.objects.filter(name__iexact=agent or the_agent()).update(online_learning=False)
