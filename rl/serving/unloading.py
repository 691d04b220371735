"""Taking served models out of memory while a run trains, on a machine that does not hold both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings

from rl.base.errors import ExportFailed
from rl.base.records import Report
from rl.models import Deployment, TrainingRun
from rl.serving import judge_server, llama_server, on_ollama


@contextmanager
def memory_for_training(run: TrainingRun, report: Report) -> Iterator[None]:
    """Does nothing unless UNLOAD_WHILE_TRAINING says so. A run that dies inside holds nothing back: whoever supervises the
    servers starts them again when the run is not at work any more. Ollama loads a model again when it is asked,
    and judges start again when no run is at work."""
    if not settings.UNLOAD_WHILE_TRAINING:
        yield
        return
    names = [*llama_server.suspend(run), *judge_server.suspend(), *_unload_from_ollama(report)]
    if names:
        report("log", {"text": f"taken out of memory while this run trains: {', '.join(names)}"})
    try:
        yield
    finally:
        if back := llama_server.resume(run):
            report("log", {"text": f"loaded again: {', '.join(back)}"})


def _unload_from_ollama(report: Report) -> list[str]:
    """A server that does not answer does not keep the run from training."""
    names = Deployment.objects.filter(target=Deployment.Target.OLLAMA).values_list("model_name", flat=True)
    unloaded = []
    try:
        for name in names:
            on_ollama.server().unload(name)
            unloaded.append(name)
    except ExportFailed as error:
        report("log", {"text": f"not everything was unloaded: {error}"})
    return unloaded
