"""The snapshot that requests are routed by, read again all the time in a thread of its own: agents, deployments, running
experiments, keys, tuned models and the newest feedback in six queries; more for agents whose answers are judged, or kept to
a form."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from django.db import DatabaseError, close_old_connections, connections
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce

from rl.base.background import end_all
from rl.base.errors import UsageError
from rl.base.manner import Manner
from rl.collect.feedback.kept_answers import (
    SETTINGS,
    AgentReader,
    ClosedAnswers,
    StructuredAnswers,
    read_kept_answers,
)
from rl.models import Agent, ApiKey, Deployment, Experiment, TuningJob
from rl.serving.gateway.routing import (
    CHECKPOINT,
    KnownAgent,
    KnownJudge,
    KnownKey,
    Served,
    Side,
    Snapshot,
    TrafficSplit,
    TunedName,
)
from rl.serving.judge_process import path_of
from rl.serving.judge_server import require_judge
from rl.serving.upstreams import upstream_of

REFRESH_SECONDS: Final = 0.7
"""How late a revoked key, a new champion, a change of an experiment or a correction may be noticed."""
FRESH_SECONDS: Final = 0.2
"""From the beginning of a reading to the next, however many requests ask for what is unknown."""
PATIENCE_SECONDS: Final = 2.0
_COLUMNS: Final = ("name", "created_at", "response_length", "unsure_below", "larger_agent__name", *SETTINGS)
log = logging.getLogger(__name__)


@contextmanager
def own_connection() -> Iterator[None]:
    """One that is alive; it is not held longer than it may be."""
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


def load(reader: AgentReader | None = None) -> Snapshot:
    """``reader``: of what answers are kept to; without it nothing is known of that."""
    deployed = defaultdict(list)
    for deployment in _find_deployments().order_by("-created_at", "-pk"):
        upstream, problem = None, ""
        try:
            upstream = upstream_of(deployment)
        except UsageError as error:
            problem = str(error)
        knows, version = deployment.target == Deployment.Target.OLLAMA, (deployment.version_id, deployment.version_name)
        served = Served(
            *version, upstream, problem, deployment.alias, knows, deployment.best_of, *_read_manner(deployment)
        )
        deployed[deployment.agent_id].append(served)
    splits = _splits()
    if reader:
        reader.look()
    agents = {
        row.name.lower(): KnownAgent(
            row.pk,
            row.name,
            row.created_at,
            row.system_prompt,
            row.response_length,
            tuple(deployed[row.pk]),
            splits.get(row.pk),
            *_judge(row, deployed[row.pk], splits.get(row.pk)),
            *_read_kept(row, deployed[row.pk], reader),
            _find_larger(row, deployed),
            row.unsure_below,
        )
        for row in Agent.objects.select_related("larger_agent").only(*_COLUMNS)
    }
    columns = ("digest", "pk", "kind", "agent_id", "scopes", "expires_at", "allowed_origins")
    keys = {
        digest: KnownKey(pk, kind == ApiKey.Kind.SECRET, agent, frozenset(scopes), expiry, origins=frozenset(origins))
        for digest, pk, kind, agent, scopes, expiry, origins in ApiKey.valid().values_list(*columns).order_by()
    }
    pages = [key.origins for key in keys.values() if not key.is_secret and key.scopes]
    return Snapshot(agents, keys, _read_tuned(), frozenset().union(*pages))


def _find_deployments() -> QuerySet[Any]:
    """With what ``_read_manner`` needs of the runs that trained their weights."""
    return Deployment.objects.select_related("agent", "version").annotate(
        thinks=F("version__run__config__thinks"),
        weights_think=F("version__weights__run__config__thinks"),
        learned_at=Coalesce(
            *(f"version__{weights}run__training_set__created_at" for weights in ("", "weights__")),
            "version__created_at",
        ),
    )


def _read_manner(deployment: Any) -> tuple[Manner, datetime | None]:
    """How it is asked, and since when its weights know what they know; None: they are the base model's. ``deployment``: one
    of ``_find_deployments``."""
    version = deployment.version
    if version is None:
        return Manner(deployment.agent.thinks), None
    is_base = deployment.target == Deployment.Target.SHARED and version.weights_id is None
    thinks = deployment.agent.thinks if is_base else bool(deployment.thinks or deployment.weights_think)
    manner = Manner(thinks, version.instruction, version.instruction_place)
    return manner, None if is_base else deployment.learned_at


def _read_tuned() -> dict[str, TunedName]:
    """With the checkpoints of each: the end of its training is one too."""
    jobs = TuningJob.objects.exclude(Q(tuned_model=None) | Q(run__version=None)).order_by()
    of_pass = (f"run__version__worded__{column}" for column in ("name", "step"))
    columns = ("tuned_model", "agent__name", "run__version__name", "run__total_steps", *of_pass)
    names = set()
    for name, agent, version, steps, earlier, step in jobs.values_list(*columns):
        names |= {(f"{name}", version, agent), (f"{name}{CHECKPOINT}{steps}", version, agent)}
        if step is not None:
            names.add((f"{name}{CHECKPOINT}{step}", earlier, agent))
    return {name.lower(): TunedName(name, f"{agent}@{version}") for name, version, agent in names}


def _read_kept(
    agent: Agent, deployed: Sequence[Served], reader: AgentReader | None
) -> tuple[ClosedAnswers | None, StructuredAnswers | None]:
    kept = reader.of(agent) if reader and any(served.upstream for served in deployed) else None
    return kept if isinstance(kept, ClosedAnswers) else None, kept if isinstance(kept, StructuredAnswers) else None


def _find_larger(agent: Agent, deployed: Mapping[int, Sequence[Served]]) -> Served | None:
    """Its newest deployment that answers. It is told the system prompt of the agent that asks."""
    larger = agent.larger_agent
    of_larger = deployed.get(larger.pk, ()) if larger else ()
    return next((Served(None, larger.name, row.upstream) for row in of_larger if larger and row.upstream), None)


def _judge(agent: Agent, deployed: Sequence[Served], split: TrafficSplit | None) -> tuple[KnownJudge | None, str]:
    """With the reason where several answers are asked for and nobody can judge them."""
    counts = [*(served.best_of for served in deployed), *(side.best_of or 1 for side in (split.sides if split else ()))]
    if max(counts, default=1) == 1:
        return None, ""
    try:
        label_model = require_judge(agent)
    except UsageError as error:
        return None, str(error)
    return KnownJudge(path_of(agent.pk, ".sock"), str(label_model.path), label_model.pk), ""


def _splits() -> dict[int, TrafficSplit]:
    """The split of traffic by agent; arms that were stopped are left out."""
    running = Experiment.objects.filter(state=Experiment.State.RUNNING).prefetch_related("arms__version")
    return {
        row.agent_id: TrafficSplit(
            row.pk,
            row.started_at or row.created_at,
            row.ramp,
            tuple(
                Side(arm.pk, arm.version_id, arm.version_name, arm.weight, arm.is_control, arm.best_of)
                for arm in row.arms.all()
                if not arm.is_stopped
            ),
        )
        for row in running
    }


class Table:
    """A database that is slow or locked leaves the last snapshot in use."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self._began_at = float("-inf")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gateway-table")
        self._reading: asyncio.Task[None] | None = None
        self._coming: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._is_stale = False
        self._reader = AgentReader(read_kept_answers)

    async def start(self) -> None:
        await self._read()
        self._keeping = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        await end_all((self._keeping, self._coming, self._reading))
        self._thread.submit(connections.close_all)
        self._thread.shutdown(wait=False)

    async def fresh(self) -> Snapshot:
        """For what the snapshot does not know: it may have been made just now, and after a reading that is under way had
        begun. Waits for two seconds at most."""
        await asyncio.wait({self._next_reading()}, timeout=PATIENCE_SECONDS)
        return self.snapshot

    def _next_reading(self) -> asyncio.Task[None]:
        """It has not begun; all who ask until then share it."""
        if self._coming is None:
            self._coming = asyncio.create_task(self._read_after(self._reading))
        return self._coming

    async def _read_after(self, current: asyncio.Task[None] | None) -> None:
        if current:
            await asyncio.wait({current})
        await asyncio.sleep(self._began_at + FRESH_SECONDS - time.monotonic())
        self._reading, self._coming = self._coming, None
        await self._read()

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            await asyncio.wait({self._next_reading()})

    async def _read(self) -> None:
        self._began_at = time.monotonic()
        try:
            self.snapshot = await asyncio.get_running_loop().run_in_executor(self._thread, _load, self._reader)
        except DatabaseError as error:
            if not self._is_stale:
                log.error("agents and deployments cannot be read, the last known ones are used: %s", error)
            self._is_stale = True
        else:
            self._is_stale = False


def _load(reader: AgentReader) -> Snapshot:
    with own_connection():
        return load(reader)
