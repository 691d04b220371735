"""Python, packages, disk and clock."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version

from django.conf import settings
from django.db import connection
from django.utils import timezone

from rl.base.disk_space import shortage
from rl.doctor import Symptom, fine, problem, warning
from rl.models import Feedback, Trace, TrainingRun

_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[[^]]*\])?==([^\s;]+)", re.MULTILINE)
_CLOCK_SECONDS = 60
TRAINING = "requirements-rl.txt"


def python() -> Iterator[Symptom]:
    project = tomllib.loads((settings.BASE_DIR / "pyproject.toml").read_text())["project"]
    low, high = (tuple(map(int, limit.split("."))) for limit in re.findall(r"3\.\d+", project["requires-python"]))
    here = f"Python {sys.version.split()[0]}"
    if low <= sys.version_info[:2] < high:
        yield fine(here)
    else:
        yield problem(f"{here} is not supported", f"install Python {project['requires-python']} and make .venv anew")


def packages() -> Iterator[Symptom]:
    """Those of the site on every machine; those of training where torch is installed, or all would be missing."""
    files = ["requirements.txt", *([TRAINING] if _installed_version("torch") else [])]
    for name in files:
        pins = dict(_PIN.findall((settings.BASE_DIR / name).read_text()))
        there = {package: _installed_version(package) for package in pins}
        # Without what a build adds: 2.13.0+cpu is 2.13.0.
        other = {name: text for name, text in there.items() if text.partition("+")[0] != pins[name]}
        fix = f".venv/bin/pip install -r {name}, then restart the site and the queue"
        for package, installed in sorted(other.items()):
            state = f"is {installed}" if installed else "is missing"
            yield problem(f"{package} {state}; {name} pins {pins[package]}", fix)
        if not other:
            yield fine(f"{len(pins)} packages are those of {name}")


def _installed_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def disk_space() -> Iterator[Symptom]:
    backups = next(path for path in (settings.BACKUP_DIR, *settings.BACKUP_DIR.parents) if path.is_dir())
    for folder in sorted({settings.DATA_DIR, backups}):
        if message := shortage(folder, settings.MIN_FREE_BYTES):
            yield problem(message, "make room: see docs/operations.md, The disk is full")
        else:
            yield fine(f"{shutil.disk_usage(folder).free / 1e9:.1f} GB are free on the disk of {folder}")


def clock() -> Iterator[Symptom]:
    """Runs, schedules and the expiry of keys go by it."""
    limit = timezone.now() + timedelta(seconds=_CLOCK_SECONDS)
    fix = "set the clock: timedatectl set-ntp true"
    ahead = [
        model._meta.verbose_name
        for model, field in ((Trace, "created_at"), (Feedback, "created_at"), (TrainingRun, "heartbeat_at"))
        if model.objects.filter(**{f"{field}__gt": limit}).exists()
    ]
    if ahead:
        yield problem(f"the clock stands still or went back: there is a {ahead[0]} from the future", fix)
    apart = _seconds_from_server()
    if apart > _CLOCK_SECONDS:
        yield problem(f"the clock and the one of the database server are {apart:.0f} seconds apart", fix)
    if _is_set_by_nobody():
        yield warning("the clock is not synchronised with any other", fix)
    elif not ahead and apart <= _CLOCK_SECONDS:
        yield fine(f"the clock says {timezone.now():%Y-%m-%d %H:%M:%S} UTC")


def _seconds_from_server() -> float:
    if connection.vendor != "postgresql":
        return 0.0
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return abs((timezone.now() - cursor.fetchone()[0]).total_seconds())


def _is_set_by_nobody() -> bool:
    """As far as systemd knows; elsewhere nobody can be asked."""
    command = ["timedatectl", "show", "--property=NTPSynchronized", "--value"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.stdout.strip() == "no"
