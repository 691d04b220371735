"""Reads what routing needs, in five queries: agents, deployments, running experiments, keys, the newest feedback; and more
for each agent whose answers are judged, or kept to those that people accepted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rl.base.errors import UsageError
from rl.collect.feedback.kept_answers import SETTINGS, ClosedAnswers, Reader, StructuredAnswers
from rl.models import Agent, ApiKey, Deployment, Experiment
from rl.serving.gateway.routing import KnownAgent, KnownJudge, KnownKey, Served, Side, Snapshot, Split
from rl.serving.judge_process import path_of
from rl.serving.judge_server import require_judge
from rl.serving.upstreams import upstream_of

_OF_AGENTS = ("name", "created_at", "response_length", *SETTINGS)


def load(reader: Reader | None = None) -> Snapshot:
    """``reader``: of what answers are kept to; without it nothing is known of that."""
    deployed = defaultdict(list)
    for deployment in Deployment.objects.select_related("agent", "version").order_by("-created_at", "-pk"):
        deployed[deployment.agent_id].append(_read_deployment(deployment))
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
        )
        for row in Agent.objects.only(*_OF_AGENTS)
    }
    return Snapshot(agents, _keys())


def _read_deployment(row: Deployment) -> Served:
    upstream, problem = None, ""
    try:
        upstream = upstream_of(row)
    except UsageError as error:
        problem = str(error)
    knows = row.target == Deployment.Target.OLLAMA
    return Served(row.version_id, row.version_name, upstream, problem, row.alias, knows, row.best_of)


def _read_kept(
    agent: Agent, deployed: Sequence[Served], reader: Reader | None
) -> tuple[ClosedAnswers | None, StructuredAnswers | None]:
    kept = reader.of(agent) if reader and any(served.upstream for served in deployed) else None
    return kept if isinstance(kept, ClosedAnswers) else None, kept if isinstance(kept, StructuredAnswers) else None


def _judge(agent: Agent, deployed: Sequence[Served], split: Split | None) -> tuple[KnownJudge | None, str]:
    """With the reason where several answers are asked for and nobody can judge them."""
    counts = [*(served.best_of for served in deployed), *(side.best_of or 1 for side in (split.sides if split else ()))]
    if max(counts, default=1) == 1:
        return None, ""
    try:
        label_model = require_judge(agent)
    except UsageError as error:
        return None, str(error)
    return KnownJudge(path_of(agent.pk, ".sock"), str(label_model.path), label_model.pk), ""


def _splits() -> dict[int, Split]:
    """The split of traffic by agent; arms that were stopped are left out."""
    running = Experiment.objects.filter(state=Experiment.State.RUNNING).prefetch_related("arms__version")
    return {
        row.agent_id: Split(
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


def _keys() -> dict[str, KnownKey]:
    columns = ("digest", "pk", "kind", "agent_id", "scopes", "expires_at")
    return {
        digest: KnownKey(pk, kind == ApiKey.Kind.SECRET, agent, frozenset(scopes), expiry)
        for digest, pk, kind, agent, scopes, expiry in ApiKey.valid().values_list(*columns).order_by()
    }
