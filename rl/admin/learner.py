"""What the online learner makes of an agent, on the agent's page: the figures of ``manage.py online_learner status``."""

from __future__ import annotations

from typing import Any

from rl.admin.markup import NOTHING, badge, change_link, join_links
from rl.models import Agent, TrainingRun
from rl.online_learner import LearnerStatus, OnlineLearner, how_to_enable


def learner_context(agent: Agent) -> dict[str, Any]:
    """Does not look for pairs: that reads all ratings of the agent, and a page must not wait for it."""
    status = OnlineLearner(agent).get_status(survey=False)
    return {"learner": status, "learner_rows": _rows(status, how_to_enable(agent))}


def _rows(status: LearnerStatus, missing: str) -> list[tuple[str, object]]:
    last = NOTHING
    if status.last_run is not None and status.last_run_state is not None:
        link = change_link(TrainingRun, status.last_run, f"run {status.last_run}")
        last = join_links([link, badge(status.last_run_state, TrainingRun.State(status.last_run_state).label)])
    interval = status.next_by_interval
    return [
        ("Retrains by itself", f"no: {missing}" if missing else "yes"),
        ("New ratings", f"{status.buffer_size} of the {status.min_samples} that start a run"),
        ("A run is at work", "yes" if status.is_training else "no"),
        ("Run due", f"yes: {status.reason}" if status.should_retrain else f"no: {status.reason}"),
        ("Last run", last),
        ("Next by the interval", f"{interval:%Y-%m-%d %H:%M} UTC" if interval else NOTHING),
    ]
