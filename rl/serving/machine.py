"""One machine serves and trains: when a training may begin, when it makes way for requests, how many cores it takes."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from rl.base.errors import ExportFailed
from rl.base.records import Report
from rl.hardware import usable_cores
from rl.models import Deployment, TrainingRun
from rl.serving import judge_server, llama_server, on_ollama

LONGEST_PAUSE = 60.0
"""Seconds. A site that is never quiet must not stop a training for ever: it goes on for a step then."""


def note_request() -> None:
    """Cheap enough for every request and every piece of a stream; a disk that refuses holds nobody up."""
    path = _path()
    with suppress(OSError):
        try:
            path.touch()
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()


def seconds_since_request() -> float | None:
    """None when there was none yet."""
    try:
        return max(0.0, time.time() - _path().stat().st_mtime)
    except FileNotFoundError:
        return None


def _path() -> Path:
    return settings.DATA_DIR / "gateway" / "last_request"


def outside_training_hours(now: datetime | None = None) -> str:
    """Why the queue starts no run now; empty when it may."""
    if settings.TRAINING_HOURS is None:
        return ""
    first, last = settings.TRAINING_HOURS
    hour = (now or timezone.now()).hour
    inside = first <= hour < last if first < last else hour >= first or hour < last
    return "" if inside else f"waits for {first:02}:00 UTC"


def busy() -> bool:
    """Whether a training should make way for requests."""
    since = seconds_since_request()
    return since is not None and since < settings.PAUSE_TRAINING_SECONDS


def serving_threads() -> int:
    """Threads that llama.cpp processes of ours on this machine may use."""
    here = Deployment.objects.filter(target=Deployment.Target.LLAMA_CPP, host=os.uname().nodename, pid__isnull=False)
    at_work = (deployment.settings for deployment in here if "unloaded_for" not in deployment.settings)
    return sum(int(chosen.get("threads", 1)) for chosen in at_work)


def training_threads(serving: int) -> int | None:
    """Threads for a training beside what serves here; None where nothing does, and the training's own rule is right. Where
    each thread has to share its core, they wait for each other in busy loops: one is faster than two then."""
    return max(1, usable_cores() - 1 - serving) if serving else None


def decisions() -> list[str]:
    """What is decided at this moment, in sentences for the dashboard."""
    sentences = []
    if waits := outside_training_hours():
        sentences.append(f"A run that is queued {waits}.")
    since = seconds_since_request()
    if since is not None:
        way = "a training makes way" if busy() else "a training need not wait"
        sentences.append(f"The gateway's last request was {_ago(since)}: {way}.")
    serving = serving_threads()
    if threads := training_threads(serving):
        sentences.append(f"llama.cpp may use {_count(serving, 'thread')}; a training takes {threads}.")
    if settings.UNLOAD_WHILE_TRAINING:
        sentences.append("Served models are taken out of memory while a run trains.")
    return sentences


def _ago(seconds: float) -> str:
    for unit, size in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            return f"{_count(int(seconds // size), unit)} ago"
    return f"{_count(int(seconds), 'second')} ago"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


@contextmanager
def memory_for_training(run: TrainingRun, report: Report) -> Iterator[None]:
    """Does nothing unless UNLOAD_WHILE_TRAINING says so. A run that dies inside holds nothing back: whoever supervises the
    servers starts them again when the run is not at work any more. Ollama loads a model again when it is asked,
    and judges start again when no run is at work."""
    if not settings.UNLOAD_WHILE_TRAINING:
        yield
        return
    # a server that does not answer does not keep the run from training
    at_ollama = Deployment.objects.filter(target=Deployment.Target.OLLAMA).values_list("model_name", flat=True)
    unloaded = []
    try:
        for name in at_ollama:
            on_ollama.server().unload(name)
            unloaded.append(name)
    except ExportFailed as error:
        report("log", {"text": f"not everything was unloaded: {error}"})
    names = [*llama_server.suspend(run), *judge_server.suspend(), *unloaded]
    if names:
        report("log", {"text": f"taken out of memory while this run trains: {', '.join(names)}"})
    try:
        yield
    finally:
        if back := llama_server.resume(run):
            report("log", {"text": f"loaded again: {', '.join(back)}"})
