"""A deployment that a page asks for. The queue does it, on the agent's own target, from a file that is there already: an
export takes minutes and all the memory of a training, so that it is left to ``deploy_model``."""

from __future__ import annotations

from django.db import transaction

from rl.base.errors import UsageError
from rl.models import ModelVersion
from rl.operations import audit
from rl.serving.deploy import deploy
from rl.serving.model_file import find_export
from rl.serving.overview import is_served


def why_not(version: ModelVersion) -> str:
    """The reason why a page cannot ask for it; empty where it can."""
    if version.is_reward_model:
        return f"{version.name} is a reward model, which gives no answers"
    if is_served(version.agent, version):
        return f"{version.name} is served already"
    level = version.agent.export_quantization
    return "" if find_export(version, level) else f"{version.name} has no GGUF file at {level} yet"


def enqueue(version: ModelVersion) -> None:
    """On behalf of whoever acts now. Raises UsageError."""
    from django_q.tasks import async_task  # reads the queue's settings when imported

    if reason := why_not(version):
        raise UsageError(reason)
    actor = audit.actor()
    transaction.on_commit(lambda: async_task("rl.tasks.deploy_version", version.pk, actor))


def deploy_now(version_id: int, actor: str) -> str:
    """For the queue: the name under which it is served; empty where that is not possible any more. Raises ExportFailed."""
    version = ModelVersion.objects.select_related("agent").filter(pk=version_id).first()
    if version is None or why_not(version):
        return ""
    with audit.acting_for(audit.Caller(actor)):
        return deploy(version.agent, version, target=version.agent.deploy_target).model_name
