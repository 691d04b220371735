"""Judges of agents whose answers are the best of several: one process for each, which the queue looks after every minute.

A judge is wanted for an agent with a deployment, or an arm of a running experiment, of which several answers are asked, or
whose answers somebody wanted compared a moment ago, and with a label model that may be used."""

import logging
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from rl import auto_labels
from rl.auto_labels.predicting import MOST_TOKENS
from rl.base.errors import RatchetError, UsageError
from rl.base.locks import device_lock
from rl.base.records import Report, silent
from rl.lm.base_models import loaded_name
from rl.models import Agent, Arm, Deployment, Experiment, LabelModel, ModelVersion, TrainingRun
from rl.models.serving import MOST_ANSWERS
from rl.operations import audit
from rl.serving import judge_process as process
from rl.serving.llama_server_process import Busy, not_now

logger = logging.getLogger(__name__)
MAX_RESTARTS = 3
"""Most restarts in a row before a judge is given up, until there is a newer label model or a deployment asks for it."""
STEADY_SECONDS = 600
"""A judge that has run for so long is well again."""
START_SECONDS = 120.0
ASKED_SECONDS = 600.0
"""A judge that was asked for by itself is kept for so long."""
_POLL_SECONDS, _CONNECT_SECONDS = 0.2, 2.0


def check_best_of(count: int) -> int:
    """Raises UsageError."""
    if not 1 <= count <= MOST_ANSWERS:
        raise UsageError(f"the best of {count} answers cannot be asked for: choose 1 to {MOST_ANSWERS}")
    return count


def set_best_of(agent: Agent, version: ModelVersion | None, count: int) -> None:
    """Wherever the version is deployed; the gateway does so within two seconds. Raises UsageError."""
    check_best_of(count)
    with transaction.atomic():
        rows = Deployment.objects.filter(agent=agent, version=version).exclude(best_of=count)
        if rows.update(best_of=count):
            subject = version or f"base model of {agent.name}"
            audit.record(audit.Action.CHANGED, subject, agent=agent, changes=f"Best of {count}.")


def require_judge(agent: Agent) -> LabelModel:
    """Raises UsageError that says why the agent's answers cannot be judged."""
    learn = f"run 'auto_label --agent {agent.name}'"
    newest = auto_labels.newest(agent)
    if newest is None:
        raise UsageError(f"{agent.name} has no judge yet: {learn}")
    if not newest.is_informative:
        raise UsageError(
            f"the newest judge of {agent.name} tells good answers from bad ones no better than chance: {learn}"
        )
    return newest


def is_wanted(agent: Agent) -> bool:
    """Whether several answers are asked of anything of the agent's."""
    return _wanted_agents().filter(pk=agent.pk).exists()


def find_problem(agent: Agent) -> str:
    """Why the answers that are given now are not the best of several; empty where they are, or nobody asks for that."""
    if not is_wanted(agent):
        return ""
    try:
        require_judge(agent)
    except RatchetError as error:
        return str(error)
    if _makes_way():
        return f"the judge of {agent.name} is out of memory while a run trains"
    started = process.read_started(agent.pk)
    if started is not None and started.error:
        return f"the judge of {agent.name} was {started.error}"
    if not process.is_alive(agent.pk):
        return f"the judge of {agent.name} does not run: the queue starts it within a minute"
    return "" if _answers(agent.pk) else f"the judge of {agent.name} does not answer yet"


def start(agent: Agent, *, report: Report = silent) -> str:
    """Starts the agent's judge where it is wanted and does not run, and waits until it answers; the problem that is left, as
    ``find_problem`` says it."""
    with _lock():
        _look_after(agent, forgiven=True)
    report("stage", {"name": "starting the judge"})
    began = time.monotonic()
    while (
        process.is_alive(agent.pk) and not _answers(agent.pk) and (waited := time.monotonic() - began) < START_SECONDS
    ):
        report("step", {"step": int(waited), "total_steps": int(START_SECONDS), "metrics": {}})
        time.sleep(_POLL_SECONDS)
    problem = find_problem(agent)
    return problem + process.cause_of_death(agent.pk) if problem and not process.is_alive(agent.pk) else problem


def wake(agent: Agent) -> None:
    """Has the agent's judge for a while, whoever else wants it, and starts it where it does not run; waits for nothing."""
    process.ask_for(agent.pk)
    with suppress(Busy), _lock(not_now):
        if not _makes_way():
            _look_after(agent)


def supervise() -> dict[str, int]:
    """One round: starts judges that are wanted, gives up those that do not stay up, ends those that nobody wants any more.
    It waits for nothing, and does nothing while somebody else starts one."""
    counts = {"started": 0, "given_up": 0, "ended": 0}
    with suppress(Busy), _lock(not_now):
        wanted = [] if _makes_way() else list(_wanted_agents())
        counts["ended"] = _end_others(wanted)
        for agent in wanted:
            if happened := _look_after(agent):
                counts[happened] += 1
    return counts


def end_unwanted() -> None:
    """Ends the judges of agents of which nobody asks for several answers any more."""
    with _lock():
        _end_others(_wanted_agents())


def suspend() -> list[str]:
    """Ends all judges for as long as a run trains, and says whose they were; the queue starts them again after it."""
    with _lock():
        agents = dict(Agent.objects.values_list("pk", "name"))
        ended = filter(process.end_judge, process.known_judges())
        return [f"the judge of {agents.get(number, number)}" for number in ended]


def _end_others(wanted: Iterable[Agent]) -> int:
    return sum(process.end_judge(number) for number in set(process.known_judges()) - {agent.pk for agent in wanted})


def _wanted_agents() -> QuerySet[Agent]:
    deployed = Deployment.objects.filter(best_of__gt=1).exclude(target=Deployment.Target.NONE).values("agent")
    arms = Arm.objects.filter(best_of__gt=1, is_stopped=False, experiment__state=Experiment.State.RUNNING)
    asked = Q(pk__in=process.asked_since(time.time() - ASKED_SECONDS))
    return Agent.objects.filter(Q(pk__in=deployed) | Q(pk__in=arms.values("experiment__agent")) | asked)


def _lock(when_held: Callable[[], None] = lambda: None) -> AbstractContextManager[None]:
    return device_lock(settings.DATA_DIR / "locks", "judges", when_held)


def _makes_way() -> bool:
    return settings.UNLOAD_WHILE_TRAINING and TrainingRun.objects.filter(state=TrainingRun.State.RUNNING).exists()


def _look_after(agent: Agent, forgiven: bool = False) -> str:
    """What happened: started, given_up, ended, or nothing. ``forgiven``: one that was given up is tried again."""
    try:
        label_model = require_judge(agent)
        folder = loaded_name(agent.base_model)
    except RatchetError:
        return "ended" if process.end_judge(agent.pk) else ""
    most = min(agent.context_length, MOST_TOKENS)
    wanted = process.Started(agent.base_model, folder, most, label_model=label_model.pk)
    before = process.read_started(agent.pk)
    is_like_it = before is not None and before.request() == wanted.request()
    if process.is_alive(agent.pk):
        if before is None or is_like_it:
            if before is not None and before.restarts and time.time() - before.pid_started > STEADY_SECONDS:
                process.remember(agent.pk, replace(before, restarts=0))
            return ""
        process.end_judge(agent.pk)
    elif before is not None and is_like_it and before.label_model == wanted.label_model and not forgiven:
        if before.error:
            return ""
        reason = process.cause_of_death(agent.pk)
        if before.restarts >= MAX_RESTARTS:
            logger.error("the judge of %s is given up after %s restarts%s", agent.name, before.restarts, reason)
            process.remember(agent.pk, replace(before, error=f"given up after {before.restarts} restarts{reason}"))
            return "given_up"
        logger.warning(
            "the judge of %s died%s; restart %s of %s", agent.name, reason, before.restarts + 1, MAX_RESTARTS
        )
        return "started" if process.spawn(agent.pk, replace(before, restarts=before.restarts + 1)) else ""
    return "started" if process.spawn(agent.pk, wanted) else ""


def _answers(agent_id: int) -> bool:
    """It listens once it has loaded its model."""
    with socket.socket(socket.AF_UNIX) as client, suppress(OSError):
        client.settimeout(_CONNECT_SECONDS)
        with process.address_of(process.path_of(agent_id, ".sock")) as address:
            client.connect(address)
        return True
    return False
