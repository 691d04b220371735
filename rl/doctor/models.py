"""Where models come from and where they are served."""

from collections.abc import Iterator

from django.conf import settings
from django.db.models import Q

from rl.base.errors import RatchetError, UsageError
from rl.doctor import Symptom, fine, problem, warning
from rl.lm.base_models import BUILDERS, GGUF_SUFFIX, local_folder
from rl.models import Agent, Deployment, Trace
from rl.models.traces import GATEWAY
from rl.serving import judge_server, llama_server, on_ollama
from rl.serving.upstreams import upstream_of

_SECONDS = 5.0
_LAST = 100
"""Answers that are looked at."""


def base_models() -> Iterator[Symptom]:
    """Those that agents have, and those that BASE_MODELS offers; both may be names of BASE_MODELS."""
    registered = settings.BASE_MODELS
    used = Agent.objects.values_list("base_model", flat=True)
    models = sorted({registered.get(name, name) for name in used} | set(registered.values()))
    for model in models:
        yield _base_model(model)
    if not models:
        yield fine("there is no agent yet")


def _base_model(name: str) -> Symptom:
    try:
        folder = local_folder(name)
    except UsageError as error:
        return problem(f"a base model cannot be used: {error}", "bring the folder back, or name another one")
    if folder.is_dir():
        return fine(f"the base model {name} is here")
    if name in BUILDERS or name.endswith(GGUF_SUFFIX):
        return fine(f"the base model {name} is made when it is needed first")
    return warning(
        f"the base model {name} is not on this machine: the next training downloads it",
        f"beforehand: hf download {name.replace('@', ' --revision ')}, as the user of the queue",
    )


def ollama() -> Iterator[Symptom]:
    """Asked only where an agent or a deployment needs it."""
    target = Deployment.Target.OLLAMA
    wanted = Agent.objects.filter(Q(auto_deploy=True, deploy_target=target) | Q(deployments__target=target))
    if not wanted.exists():
        yield fine("Ollama is not used")
        return
    try:
        yield fine(f"Ollama {on_ollama.server(_SECONDS).version()} answers at {settings.OLLAMA_URL}")
    except RatchetError as error:
        yield problem(f"Ollama is needed and does not answer: {error}", "start Ollama, or correct OLLAMA_URL")


def llama_cpp() -> Iterator[Symptom]:
    rows = Deployment.objects.filter(target=Deployment.Target.LLAMA_CPP).select_related("agent", "version")
    for row in rows:
        if not llama_server.is_alive(row):
            yield problem(
                f"the llama.cpp server of {row.agent.name} {row.version_name} is down",
                "the queue starts it again within a minute; if not, see DATA_DIR/servers/ and the queue's log",
            )
        elif not llama_server.model_path(row).exists():
            yield problem(f"{row.path}, which {row.agent.name} {row.version_name} serves, is gone", "export it again")
    for row in Deployment.objects.filter(target=Deployment.Target.ADAPTER).select_related("agent", "version"):
        try:
            upstream_of(row)
        except UsageError as error:
            yield problem(f"{row.agent.name} {row.version_name} is an adapter: {error}", "deploy it again")
    if not rows:
        yield fine("llama.cpp is not used")


def judges() -> Iterator[Symptom]:
    """Whether the best of several answers is given where that is asked for."""
    fix = "see DATA_DIR/judges/ and docs/serving.md, The best of several answers"
    agents = [agent for agent in Agent.objects.all() if judge_server.is_wanted(agent)]
    for agent in agents:
        if reason := judge_server.find_problem(agent):
            yield problem(f"{agent.name} gives the first of several answers: {reason}", fix)
        elif reasons := _find_unjudged(agent):
            yield warning(
                f"{len(reasons)} of the last {_LAST} answers of {agent.name} were not judged: {reasons[0]}", fix
            )
        else:
            yield fine(f"the judge of {agent.name} answers")
    if not agents:
        yield fine("no deployment gives the best of several answers")


def _find_unjudged(agent: Agent) -> list[str]:
    """Why, for the last answers of which several were asked for."""
    rows = Trace.objects.filter(agent=agent, source=GATEWAY).order_by("-created_at", "-id")
    judgings = (details.get("best_of", {}) for details in rows.values_list("details", flat=True)[:_LAST])
    return [judging["unjudged"] for judging in judgings if judging.get("asked", 1) > 1 and "unjudged" in judging]
