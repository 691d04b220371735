"""What Ratchet does by itself with what it was given, up to the point of training."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

from rl import tasks
from rl.base.errors import RatchetError
from rl.base.records import silent
from rl.config import METHODS
from rl.from_systems.n3 import policies
from rl.models import Agent, TrainingRun
from rl.online_learner import OnlineLearner
from rl.runs import run as runs
from rl.scoring import stored as rewarding
from tests.boundary.watching import Watch

TICKS = (
    "consider_retraining",
    "supervise_servers",
    "look_at_experiments",
    "look_at_promotions",
    "deliver_answers",
    "forget_pending_spans",
)


class Reached(RatchetError):
    """A run came to its training."""


@contextmanager
def nothing_trained(watch: Watch) -> Iterator[None]:
    """A canary among the settings that a training begins with is a deed."""

    def begin(run: TrainingRun, *arguments: Any) -> None:
        for where, settings in (("config", run.config), ("options", run.options)):
            for name, value in settings.items():
                # texts that answers are compared with (test_canaries_tuning.py), and words for the model
                if name in ("grader", "instruction"):
                    continue
                watch.see(f"training with {where} {name}", json.loads(json.dumps(value)))
        raise Reached

    with patch.object(runs, "_train", begin):
        yield


def work_on(run: TrainingRun) -> bool:
    """True where it came to its training. The row goes."""
    try:
        if run.claim():
            runs.execute(run, silent)
    except Reached:
        return True
    except RatchetError:
        pass
    finally:
        TrainingRun.objects.filter(pk=run.pk).delete()
    return False


def use(agent: Agent, watch: Watch) -> int:
    """Plans, rewards, retrains, and what the queue does each minute. How many runs came to their training."""
    agent = Agent.objects.get(pk=agent.pk)
    rewarding.calculate(agent, report=silent)
    for method in METHODS:
        with suppress(RatchetError):
            policies.estimate_training(agent, {"method": method})
    for name in TICKS:
        getattr(tasks, name)()
    with nothing_trained(watch), suppress(RatchetError):
        return work_on(OnlineLearner(agent).trigger_retrain())
    return 0
