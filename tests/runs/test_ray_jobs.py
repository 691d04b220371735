"""What the reaper makes of what a cluster says; a real one is in tests/commands/test_ray.py."""

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.utils import timezone

from rl.models import Agent, TrainingRun
from rl.runs import ray_jobs, supervisor

pytestmark = [pytest.mark.process, pytest.mark.django_db]


class Head(ThreadingHTTPServer):
    """Answers as the Jobs API of Ray 2 does."""

    daemon_threads = True
    job: dict | None = None
    calls: list[tuple[str, dict | None]]


class Handler(BaseHTTPRequestHandler):
    server: Head

    def do_GET(self) -> None:
        self._answer(200 if self.server.job else 404, self.server.job or {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.calls.append((self.path, body))
        self._answer(200, {"submission_id": "x", "stopped": True})

    def _answer(self, status: int, body: dict) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def head(settings) -> Iterator[Head]:
    server = Head(("127.0.0.1", 0), Handler)
    server.calls = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings.TRAINING_EXECUTOR, settings.RAY_ADDRESS = "ray", f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def run(agent: Agent, data_dir) -> TrainingRun:
    run = TrainingRun.objects.create(agent=agent, method="dpo")
    run.claim()
    return run


def reason(run: TrainingRun) -> str:
    return supervisor._cause_of_death(run)


def test_a_run_is_submitted_with_its_attempt_and_nothing_secret(head: Head, run: TrainingRun, settings):
    supervisor.spawn(run)
    [(path, body)] = head.calls
    assert path == "/api/jobs/"
    assert f"train_dpo --run {run.pk} --attempt 1" in body["entrypoint"]
    assert body["submission_id"] == ray_jobs.name_of(run)
    assert settings.SECRET_KEY not in json.dumps(body)


def test_a_job_that_waits_for_its_place_is_not_dead(head: Head, run: TrainingRun):
    head.job = {"status": "PENDING", "message": None}
    TrainingRun.objects.update(heartbeat_at=timezone.now() - timedelta(hours=5))
    run.refresh_from_db()
    assert reason(run) == ""


def test_a_job_that_ended_without_the_run_has_its_message_in_the_reason(head: Head, run: TrainingRun):
    head.job = {"status": "FAILED", "message": "the node was preempted"}
    assert reason(run) == "its Ray job is FAILED: the node was preempted"


@pytest.mark.database
def test_a_job_without_progress_is_stopped(head: Head, run: TrainingRun):
    head.job = {"status": "RUNNING", "message": ""}
    TrainingRun.objects.update(pid=1, heartbeat_at=timezone.now() - timedelta(hours=1))
    run.refresh_from_db()
    assert "made no progress" in reason(run)
    assert head.calls[-1][0] == f"/api/jobs/{ray_jobs.name_of(run)}/stop"


@pytest.mark.database
def test_a_run_that_ray_does_not_know_is_looked_for_here(head: Head, run: TrainingRun):
    TrainingRun.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=5))
    run.refresh_from_db()
    assert reason(run) == "its process never came up"


def test_a_cluster_that_is_away_kills_nothing(head: Head, run: TrainingRun, settings):
    settings.RAY_ADDRESS = "http://127.0.0.1:9"
    assert supervisor.supervise() == {"started": 0, "resumed": 0, "failed": 0}
    run.refresh_from_db()
    assert run.attempt == 1
