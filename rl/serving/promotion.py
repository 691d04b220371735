"""Which version an agent uses: promotion and one-step rollback. A command, the admin and experiments come here.

The alias ``champion`` moves in the database, and the agent's own name at Ollama (``support-chat``) moves with it, so that
applications that use Ollama directly switch at once."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import transaction

from rl.base.errors import RunConflict, UsageError
from rl.base.locks import device_lock
from rl.base.records import Report, silent
from rl.models import Agent, Deployment, ModelVersion, version_name
from rl.operations import audit
from rl.operations.webhooks.events import deployment_changed
from rl.serving import on_ollama
from rl.serving.withdrawal import rows_of

_PATIENCE_SECONDS = 60.0
Alias, Target = Deployment.Alias, Deployment.Target


def in_use(agent: Agent) -> Deployment | None:
    """The row that answers for the agent: the champion's, else one of its base model."""
    own = Deployment.objects.filter(agent=agent).select_related("agent", "version")
    return own.filter(alias=Alias.CHAMPION).first() or _newest_row(agent, None)


def promote(agent: Agent, version: ModelVersion | None, *, report: Report = silent) -> None:
    """Makes the version champion, and today's champion ``previous``; None goes back to the base model. Raises UsageError
    for a reward model and for another agent's version, ExportFailed when Ollama serves the version and does not take its
    name; nothing has moved then."""
    if version is not None and version.agent_id != agent.pk:
        raise UsageError(f"{version} is not a version of {agent.name}")
    if version is not None:
        version.require_answers()
    with _one_at_a_time(agent):
        before = in_use(agent)
        if before is None or before.version_id != (version.pk if version else None):
            _switch(_newest_row(agent, version), before, version, report)
        with transaction.atomic():
            former = Deployment.champion(agent)
            if version is None:
                _move_to_base(agent)
            else:
                Deployment.promote(version)
            if former != version:
                event = audit.record(
                    audit.Action.PROMOTED, _audit_subject(agent, version), agent=agent, before=version_name(former)
                )
                deployment_changed(event, agent)


def roll_back(
    agent: Agent, *, instead_of: ModelVersion | None = None, reason: str = "", report: Report = silent
) -> ModelVersion | None:
    """Champion and previous change places; the version in use then, None for the base model. Doing it twice changes
    nothing. ``instead_of``: only while this version is in use. ``reason``: for the audit log, where nobody asked for it.
    Raises UsageError when the agent has used its base model only, ExportFailed as ``promote`` does, RunConflict when
    another version than ``instead_of`` is in use."""
    details = {"reason": reason} if reason else {}
    with _one_at_a_time(agent):
        _require_in_use(agent, instead_of)
        previous = (
            Deployment.objects.filter(agent=agent, alias=Alias.PREVIOUS).select_related("agent", "version").first()
        )
        version = previous.version if previous else None
        if Deployment.objects.filter(agent=agent).exclude(alias="").exists():
            _switch(previous or _newest_row(agent, None), in_use(agent), version, report)
        with transaction.atomic():
            _require_in_use(agent, instead_of)  # another machine has another lock
            before, version = Deployment.champion(agent), Deployment.swap(agent)
            subject = _audit_subject(agent, version)
            event = audit.record(audit.Action.ROLLED_BACK, subject, agent=agent, before=version_name(before), **details)
            deployment_changed(event, agent)
        return version


def point_name(row: Deployment, report: Report = silent) -> None:
    """Makes the agent's own name at Ollama stand for the row, where Ollama serves it."""
    if row.target == Target.OLLAMA:
        on_ollama.point(row.agent, row, report)


def _switch(row: Deployment | None, before: Deployment | None, version: ModelVersion | None, report: Report) -> None:
    """Before the alias moves: a name at Ollama that cannot move must stop it. ``row``: what serves the version."""
    if row is not None:
        point_name(row, report)
    name, target = version.name if version else "the base model", row.target if row else Target.NONE
    if before is None or before.target == Target.NONE:
        return
    if target == Target.NONE:
        text = f"nothing serves {name} yet, while {before.version_name} is served: run 'deploy_model'"
        report("log", {"text": text})
    if before.target == Target.OLLAMA and target != Target.OLLAMA:
        report(
            "log", {"text": f"Ollama does not serve {name}: {before.agent.name} is {before.version_name} there still"}
        )


def _newest_row(agent: Agent, version: ModelVersion | None) -> Deployment | None:
    """The row that a promotion of the version would take: its newest."""
    return rows_of(agent, version).select_related("agent", "version").first()


def _require_in_use(agent: Agent, version: ModelVersion | None) -> None:
    """None: any. In a transaction nobody else moves the alias from then on."""
    if version is None:
        return
    with transaction.atomic():
        rows = Deployment.objects.select_for_update().filter(agent=agent, alias=Alias.CHAMPION)
        if rows.values_list("version", flat=True).first() != version.pk:
            raise RunConflict(f"{version.name} of {agent.name} is not in use any more")


def _audit_subject(agent: Agent, version: ModelVersion | None) -> ModelVersion | str:
    return version or f"base model of {agent.name}"


def _move_to_base(agent: Agent) -> None:
    rows = Deployment.objects.select_for_update().filter(agent=agent)
    champion = rows.filter(alias=Alias.CHAMPION).first()
    if champion is None or champion.version_id is None:
        return
    rows.filter(alias=Alias.PREVIOUS).update(alias="")
    rows.filter(alias=Alias.CHAMPION).update(alias=Alias.PREVIOUS)
    if base := _newest_row(agent, None):
        rows.filter(pk=base.pk).update(alias=Alias.CHAMPION)


@contextmanager
def _one_at_a_time(agent: Agent) -> Iterator[None]:
    began = time.monotonic()

    def waiting() -> None:
        if time.monotonic() - began > _PATIENCE_SECONDS:
            raise RunConflict(f"{agent.name} is being promoted or rolled back by somebody else; try again")

    with device_lock(settings.DATA_DIR / "locks", f"promote-{agent.pk}", waiting):
        yield
