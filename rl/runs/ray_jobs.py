"""Runs as jobs of a Ray cluster, by its Jobs API (https://docs.ray.io, ``/api/jobs/``): the ray package is not needed here.

The cluster's nodes need what this machine has, under the same paths: the checkout with its environment and ``.env``, the
shared ``DATA_DIR``, and the way to the database. Nothing secret goes through Ray, whose dashboard shows what it is given.
"""

import hashlib
import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from django.conf import settings

from rl.models import TrainingRun

SECONDS = 10.0
AT_WORK = ("PENDING", "RUNNING")
_PASSED_ON = ("ENV_FILE", "DJANGO_SETTINGS_MODULE")


class RayRefused(OSError):
    """``errno`` is the HTTP status."""


@dataclass(frozen=True, slots=True)
class RayJob:
    state: str
    """Ray's: PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED."""
    message: str


def submit(run: TrainingRun, command: Sequence[str]) -> None:
    """Raises OSError when the cluster does not take it."""
    _call(
        "POST",
        "",
        {
            # Ray gives its jobs a RAY_ADDRESS of another kind, which is not a setting of ours.
            "entrypoint": shlex.join(["env", "-u", "RAY_ADDRESS", *command]),
            "submission_id": name_of(run),
            "entrypoint_num_cpus": 1,
            "entrypoint_num_gpus": settings.RAY_JOB_GPUS,
            "runtime_env": {"env_vars": {name: os.environ[name] for name in _PASSED_ON if name in os.environ}},
            "metadata": {"agent": run.agent.name, "method": run.method},
        },
    )


def find(run: TrainingRun) -> RayJob | None:
    """Ray's job of the run's present attempt, None without one. Raises OSError when the cluster does not answer."""
    try:
        status = _call("GET", name_of(run))
    except RayRefused as error:
        if error.errno == 404:
            return None
        raise
    return RayJob(str(status.get("status")), str(status.get("message") or ""))


def stop(run: TrainingRun) -> None:
    """Raises OSError."""
    _call("POST", f"{name_of(run)}/stop", {})


def name_of(run: TrainingRun) -> str:
    """Sites may share a cluster, and a database may begin again at run 1."""
    site = hashlib.sha256(f"{settings.SECRET_KEY} {run.pk} {run.created_at.timestamp()}".encode()).hexdigest()[:8]
    return f"ratchet-run-{run.pk}-{run.attempt}-{site}"


def _call(method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    request = Request(  # noqa: S310  an http address: the settings have checked it
        f"{settings.RAY_ADDRESS}/api/jobs/{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        method=method,
    )
    try:
        with urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
            document: dict[str, Any] = json.load(answer)
    except HTTPError as error:
        reason = error.read(500).decode(errors="replace").strip()
        raise RayRefused(error.code, f"Ray at {settings.RAY_ADDRESS} answers {error.code}: {reason}") from None
    return document
