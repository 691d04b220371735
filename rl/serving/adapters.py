"""Many versions on one base model: each is an adapter that the base model's llama.cpp server has too, and a request says
which it is for (``upstreams``).

The server has its adapters from its start on, so that one more begins it anew: what served until then goes on until the new
process answers. What is taken away is gone from it at its next start."""

from rl.base.errors import ExportFailed, UsageError
from rl.base.records import Report
from rl.lm import base_models
from rl.models import Deployment, ModelVersion
from rl.serving import llama_server
from rl.serving.model_file import ModelFile
from rl.serving.upstreams import adapters_of, find_host


def has_host(version: ModelVersion | None, report: Report) -> bool:
    """Whether llama.cpp serves the agent's base model as it is now; None, the base model, needs no host. Raises UsageError
    for a version of another one."""
    if version is None:
        return True
    agent = version.agent
    base_model = base_models.resolve(agent.base_model, report)
    if version.base_model != base_model:
        reason = f"{version.name} was trained from {version.base_model}, and {agent.name} begins with {base_model} now"
        raise UsageError(f"{reason}: deploy it to llama_cpp")
    host = find_host(agent)
    return host is not None and host.settings.get("base_model") == base_model and llama_server.is_alive(host)


def put_on_host(row: Deployment, file: ModelFile, report: Report) -> None:
    """Saves the row once the server has its adapter too. Raises ExportFailed with what llama.cpp says; all is then as it
    was."""
    before = None if row.pk is None else Deployment.objects.get(pk=row.pk)
    row.target, row.url, row.settings = Deployment.Target.ADAPTER, "", {}
    row.path, row.sha256 = file.stored_path, file.sha256
    row.save()
    try:
        host = find_host(row.agent)
        if host is None:
            raise ExportFailed(f"the server of {row.agent.name}'s base model was stopped meanwhile")
        llama_server.start(host, report=report)
        if row.pk not in adapters_of(host):
            raise ExportFailed(f"{file.path} was changed meanwhile; export it again")
    except BaseException:
        if before:
            before.save()
        else:
            row.delete()
        raise
