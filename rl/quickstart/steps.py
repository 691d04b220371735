"""The steps that every demo has: database, account, base model, agent, training, gate, site."""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection

from rl import dataset_builder
from rl.base.errors import RatchetError, TrainingFailed
from rl.base.records import Report
from rl.config import find_method
from rl.config.authority import Owner
from rl.demo.load import DEMOS, load_demo
from rl.demo.mailroom import draw_parts
from rl.export.release import artifact_path
from rl.hardware import usable_cores
from rl.models import Agent, ApiKey, Artifact, Deployment, Evaluation, Feedback, Trace, TrainingRun
from rl.operations.keys import revoke
from rl.runs import run as runs
from rl.runs import supervisor
from rl.serving import promotion
from rl.serving.deploy import deploy

ADMIN = "admin"
DEMO_KEY = "quickstart demo page"
METHOD = "mpo"
QUESTIONS = 5
"""That are shown before and after."""


@dataclass(frozen=True, slots=True)
class Admin:
    user_id: int
    username: str
    password: str | None
    """None when the account was there already: only its hash is kept."""


def prepare_database() -> str:
    call_command("migrate", verbosity=0, interactive=False)
    return f"{connection.vendor} is ready"


def prepare_admin() -> Admin:
    if known := User.objects.filter(username=ADMIN).first():
        return Admin(known.pk, ADMIN, None)
    password = secrets.token_urlsafe(12)
    return Admin(User.objects.create_superuser(ADMIN, password=password).pk, ADMIN, password)


def prepare_demo(name: str, model: str, seed: int) -> tuple[Agent, str]:
    """``name``: of DEMOS, or empty: the model's own; ``seed``: of the simulated raters."""
    agent = load_demo(model, seed, name)
    if is_job(agent):
        corrected, unseen, others = map(len, draw_parts(seed))
        return agent, f"{corrected} messages to correct, {unseen} to test on, {others} left for you"
    answers, ratings = Trace.objects.filter(agent=agent), Feedback.objects.filter(agent=agent)
    prompts = answers.values("prompt_key").distinct().count()
    return agent, f"{prompts} prompts, {answers.count()} answers, {ratings.count()} ratings (simulated raters)"


def is_job(agent: Agent) -> bool:
    """Whether its model is asked and corrected while one looks on."""
    return DEMOS[agent.name].questions is None


def serves(agent: Agent) -> bool:
    """Whether its models are worth talking to: the toy's are not."""
    return agent.deploy_target == Deployment.Target.LLAMA_CPP


def deploy_base(agent: Agent, report: Report) -> str:
    """The base model answers from now on, or whatever a quickstart before this one has put in its place."""
    if promotion.in_use(agent) is None:
        deploy(agent, None, target=agent.deploy_target, report=report)
    in_use = promotion.in_use(agent)
    assert in_use is not None  # noqa: S101  it has just been deployed
    return f"{in_use.model_name} answers"


def train(agent: Agent, seed: int, announce: Callable[[str], None]) -> TrainingRun:
    """The demo's run, in a process of its own; an unfinished one of an earlier quickstart is gone on with. Raises
    TrainingFailed when it did not succeed."""
    run = TrainingRun.objects.filter(agent=agent, trigger=TrainingRun.Trigger.QUICKSTART).first()
    if run is not None and run.state == TrainingRun.State.SUCCEEDED:
        announce(f"run {run.pk} is done already")
        return run
    run = _claim(agent, run, seed)
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), *find_method(run.method).command.split()]
    numbers = ["--run", str(run.pk), "--attempt", str(run.attempt)]
    # All cores: a person waits for it, and the model that is served has nothing to do unless that person asks it.
    threads = {"OMP_NUM_THREADS": str(usable_cores()), **os.environ}
    code = subprocess.call([*command, *numbers], stdout=subprocess.DEVNULL, env=threads)
    run.refresh_from_db()
    if run.state != TrainingRun.State.SUCCEEDED:
        raise TrainingFailed(f"run {run.pk} ended with exit code {code}: {run.error or run.state}")
    return run


def _claim(agent: Agent, run: TrainingRun | None, seed: int) -> TrainingRun:
    if run is None:
        run = runs.create(
            agent,
            method_name=METHOD,
            config=agent.training_config(METHOD).with_overrides({"seed": seed}),
            options=runs.RunOptions(
                data=dataset_builder.DataOptions(pair_type=agent.pair_type, max_pairs_per_question=2, val_split=0.3),
                export=True,
                quantization=agent.export_quantization,
                deploy=agent.deploy_target if serves(agent) else "",
            ),
            trigger=TrainingRun.Trigger.QUICKSTART,
            by=Owner.OPERATOR,
        )
    return supervisor.claim_stopped(run)


def outcome(run: TrainingRun) -> tuple[Evaluation, Path | None]:
    """What the gate said, and the GGUF file; None where it did not promote the version."""
    assert run.version is not None  # noqa: S101  the run has succeeded
    evaluation = run.version.evaluations.order_by("created_at").select_related("against", "version__agent").first()
    assert evaluation is not None  # noqa: S101  a run that succeeded was evaluated
    artifact = run.version.artifacts.filter(kind=Artifact.Kind.GGUF).first()
    return evaluation, artifact_path(artifact) if artifact else None


def first_questions(evaluation: Evaluation) -> list[dict[str, str]]:
    """``prompt``, ``before``, ``after`` of QUESTIONS prompts."""
    names = ("prompt", "before", "after")
    return [{name: row[name] for name in names} for row in evaluation.before_and_after[:QUESTIONS]]


def demo_page_link(agent: Agent, port: int) -> str:
    """A page on another origin (localhost, not 127.0.0.1) with a fresh publishable key; the last one is revoked."""
    for old in ApiKey.valid().filter(name=DEMO_KEY):
        revoke(old)
    origin = f"http://localhost:{port}"
    _, key = ApiKey.create(name=DEMO_KEY, kind=ApiKey.Kind.PUBLISHABLE, agent=agent, allowed_origins=[origin])
    return f"{origin}/demo/?key={key}"


def links(agent: Agent, run: TrainingRun, port: int) -> dict[str, str]:
    site = f"http://127.0.0.1:{port}"
    talk = {"talk to it": f"{site}/try/{agent.name}/"} if serves(agent) else {}
    return {
        **talk,
        "dashboard": f"{site}/",
        "rate answers": f"{site}/rate/{agent.name}/",
        "the training run": f"{site}/runs/{run.pk}/",
        "API": f"{site}/api/docs/",
        "widget on a foreign page": demo_page_link(agent, port),
    }


class Site:
    """The site with the gateway, and the queue, as processes; what they say goes to standard error."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"
        manage = [sys.executable, str(settings.BASE_DIR / "manage.py")]
        environment = {**os.environ, "SITE_URL": self.address}
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        self._site = subprocess.Popen([*manage, "serve", "--port", str(port)], env=environment, stdout=sys.stderr)
        self._queue = subprocess.Popen([*manage, "qcluster"], env=environment, stdout=sys.stderr)

    def wait(self) -> None:
        """Until the site ends. Raises RatchetError when it failed."""
        if code := self._site.wait():
            raise RatchetError(f"the site ended with exit code {code}")

    def stop(self) -> None:
        for process in (self._site, self._queue):
            process.terminate()
        for process in (self._site, self._queue):
            try:
                process.wait(timeout=10)
            except (
                subprocess.TimeoutExpired
            ):  # the queue does not end by itself when its workers got the signal before it
                process.kill()
                process.wait()
