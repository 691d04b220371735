"""What an agent's model is told with every question: an instruction makes a version of what is in use, without a training.

It answers at once, by the server of the version whose weights it has; nothing is in use of it before it is promoted, and
taking it back is a rollback as of any version. What is trained while it is in use learns under it."""

from django.db import transaction

from rl.base.errors import UsageError
from rl.base.manner import PLACES, QUESTION, check_instruction
from rl.base.names import require_known
from rl.models import Agent, Deployment, ModelVersion, version_name
from rl.operations import audit
from rl.operations.webhooks.events import deployment_changed
from rl.serving.upstreams import upstream_of
from rl.serving.withdrawal import rows_of
from rl.versions.versions import register_worded

Target = Deployment.Target


def instruct(agent: Agent, text: str, instruction_place: str = QUESTION) -> ModelVersion:
    """A version with the weights of what is in use, told ``text`` in place of what that is told; the same words find the
    same version again. Raises UsageError for words that are none or too many, and where nothing serves the weights."""
    words = read_words(text)
    require_known("place", instruction_place, PLACES)
    in_use = Deployment.champion(agent)
    if in_use and (in_use.instruction, in_use.instruction_place) == (words, instruction_place):
        raise UsageError(f"{in_use.name}, which is in use, is told this already")
    weights = in_use.weights if in_use and in_use.is_worded else in_use
    with transaction.atomic():
        Agent.objects.select_for_update().get(pk=agent.pk)
        same = agent.versions.filter(weights=weights, run=None, instruction=words, instruction_place=instruction_place)
        version = same.first() or register_worded(agent, weights, words, instruction_place)
        share_server(version)
    return version


def read_words(text: str) -> str:
    """Raises UsageError for none or too many."""
    if words := check_instruction(text.replace("\r\n", "\n").strip()):
        return words
    raise UsageError("say in a sentence what the answers should be like")


def share_server(version: ModelVersion) -> Deployment:
    """Serves the version, which has an instruction and no weights of its own. Raises UsageError where nothing serves what it
    has the weights of."""
    agent = version.agent
    if row := rows_of(agent, version).first():
        return row
    name = f"{agent.name}:{version.name}"
    row = Deployment(agent=agent, version=version, target=Target.SHARED, model_name=name)
    try:
        upstream_of(row)
    except UsageError:
        served = version_name(version.weights)
        raise UsageError(f"nothing serves {served} of {agent.name}, which {version.name} has the weights of") from None
    with transaction.atomic():
        row.save()
        version.move(ModelVersion.Stage.DEPLOYED)
        event = audit.record(audit.Action.DEPLOYED, version, agent=agent, on=row.target, model_name=name, url="")
        deployment_changed(event, agent)
    return row
