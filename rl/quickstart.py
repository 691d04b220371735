"""The first run of the whole loop, step by step. Every step looks at what is there already, so a second run is immediate.

Imports: base, config, dataset_builder, demo, export, models, operations, runs; Django.
"""

from __future__ import annotations

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
from rl.config.authority import Owner
from rl.demo.load import load_demo
from rl.export.release import artifact_path
from rl.models import Agent, ApiKey, Artifact, Evaluation, Feedback, Trace, TrainingRun
from rl.operations.keys import revoke
from rl.runs import run as runs
from rl.runs import supervisor

ADMIN = "admin"
DEMO_KEY = "quickstart demo page"


@dataclass(frozen=True, slots=True)
class Admin:
    username: str
    password: str | None
    """None when the account was there already: only its hash is kept."""


def prepare_database() -> str:
    call_command("migrate", verbosity=0, interactive=False)
    return f"{connection.vendor} is ready"


def prepare_admin() -> Admin:
    if User.objects.filter(username=ADMIN).exists():
        return Admin(ADMIN, None)
    password = secrets.token_urlsafe(12)
    User.objects.create_superuser(ADMIN, password=password)
    return Admin(ADMIN, password)


def prepare_demo() -> tuple[Agent, str]:
    agent = load_demo()
    answers, ratings = Trace.objects.filter(agent=agent), Feedback.objects.filter(agent=agent)
    prompts = answers.values("prompt_key").distinct().count()
    return agent, f"{prompts} prompts, {answers.count()} answers, {ratings.count()} ratings (simulated raters)"


def train(agent: Agent, announce: Callable[[str], None]) -> TrainingRun:
    """The demo's run, in a process of its own; an unfinished one of an earlier quickstart is gone on with.

    Raises TrainingFailed when it did not succeed.
    """
    run = TrainingRun.objects.filter(agent=agent, trigger=TrainingRun.Trigger.QUICKSTART).first()
    if run is not None and run.state == TrainingRun.State.SUCCEEDED:
        announce(f"run {run.pk} is done already")
        return run
    run = _claim(agent, run)
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "train_dpo"]
    numbers = ["--run", str(run.pk), "--attempt", str(run.attempt)]
    code = subprocess.call([*command, *numbers], stdout=subprocess.DEVNULL)
    run.refresh_from_db()
    if run.state != TrainingRun.State.SUCCEEDED:
        raise TrainingFailed(f"run {run.pk} ended with exit code {code}: {run.error or run.state}")
    return run


def _claim(agent: Agent, run: TrainingRun | None) -> TrainingRun:
    if run is None:
        run = runs.create(
            agent,
            method_name="dpo",
            config=agent.training_config(),
            options=runs.RunOptions(
                data=dataset_builder.DataOptions(pair_type=agent.pair_type, val_split=0.3),
                export=True,
                quantization=agent.export_quantization,
            ),
            trigger=TrainingRun.Trigger.QUICKSTART,
            by=Owner.OPERATOR,
        )
    return supervisor.claim_stopped(run)


def outcome(run: TrainingRun) -> tuple[Evaluation, Path]:
    """What the gate said and the GGUF file. Raises RatchetError when the demo's model was not good enough to export."""
    assert run.version is not None  # noqa: S101  the run has succeeded
    evaluation = run.version.evaluations.order_by("created_at").select_related("against", "version__agent").first()
    assert evaluation is not None  # noqa: S101  a run that succeeded was evaluated
    artifact = run.version.artifacts.filter(kind=Artifact.Kind.GGUF).first()
    if artifact is None:
        raise RatchetError(f"the gate did not promote {run.version}: {evaluation.report['reason']}")
    return evaluation, artifact_path(artifact)


def demo_page_link(agent: Agent, port: int) -> str:
    """A page on another origin (localhost, not 127.0.0.1) with a fresh publishable key; the last one is revoked."""
    for old in ApiKey.valid().filter(name=DEMO_KEY):
        revoke(old)
    origin = f"http://localhost:{port}"
    _, key = ApiKey.create(name=DEMO_KEY, kind=ApiKey.Kind.PUBLISHABLE, agent=agent, allowed_origins=[origin])
    return f"{origin}/demo/?key={key}"


def links(agent: Agent, run: TrainingRun, port: int) -> dict[str, str]:
    site = f"http://127.0.0.1:{port}"
    return {
        "dashboard": f"{site}/",
        "rate answers": f"{site}/rate/{agent.name}/",
        "the training run": f"{site}/admin/rl/trainingrun/{run.pk}/change/",
        "API": f"{site}/api/docs/",
        "widget on a foreign page": demo_page_link(agent, port),
    }


def serve(port: int) -> None:
    """The site with the gateway, and the queue, until the site ends or a person stops them."""
    manage = [sys.executable, str(settings.BASE_DIR / "manage.py")]
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    environment = {**os.environ, "SITE_URL": f"http://127.0.0.1:{port}"}
    site = subprocess.Popen([*manage, "serve", "--port", str(port)], env=environment)
    queue = subprocess.Popen([*manage, "qcluster"], env=environment)
    try:
        if code := site.wait():
            raise RatchetError(f"the site ended with exit code {code}")
    finally:
        for process in (site, queue):
            process.terminate()
        for process in (site, queue):
            _wait_or_kill(process)


def _wait_or_kill(process: subprocess.Popen[bytes]) -> None:
    """The queue does not end by itself when its workers got the same signal before it."""
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
