"""What the page of a training run asks for every two seconds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from rl.models import TrainingRun
from rl.runs import episode_rates

LOG_BYTES = 8192
POINTS = 5000
"""Points in one answer; a longer history takes several."""


@require_safe
@never_cache
@login_required
def progress(request: HttpRequest, pk: int) -> JsonResponse:
    """``?after=STEP`` leaves out the points up to that step."""
    if not (request.user.is_staff and request.user.has_perm("rl.view_trainingrun")):
        raise PermissionDenied
    after = request.GET.get("after", "-1")
    if not after.removeprefix("-").isdecimal() or len(after) > 10:
        return JsonResponse({"error": f"after={after[:50]!r} is not a step number"}, status=400)
    run = get_object_or_404(TrainingRun, pk=pk)
    return JsonResponse(
        {
            "state": run.state,
            "stage": run.stage,
            "step": run.step,
            "total_steps": run.total_steps,
            "attempt": run.attempt,
            "eta_seconds": eta_seconds(run),
            "error": run.error,
            "points": points(run, int(after)),
            "success": episode_rates.series(run),
            "log_tail": log_tail(run.log_path),
        }
    )


def points(run: TrainingRun, after: int) -> list[tuple[int, dict[str, Any]]]:
    return list(run.metric_points.filter(step__gt=after).values_list("step", "values")[:POINTS])


def eta_seconds(run: TrainingRun) -> int | None:
    """None while nothing is known: before the first step, and after a resume, whose steps were partly done before."""
    known = run.state == run.State.RUNNING and run.started_at and run.attempt == 1 and 0 < run.step <= run.total_steps
    if not known or run.started_at is None:
        return None
    elapsed = (timezone.now() - run.started_at).total_seconds()
    return round(elapsed / run.step * (run.total_steps - run.step))


def log_tail(path: Path) -> str:
    """The last whole lines within 8 kB; "" while there is no log. Reads nothing but a plain file in its own place."""
    if path.is_symlink() or not path.is_file():
        return ""
    with path.open("rb") as file:
        start = max(0, file.seek(0, os.SEEK_END) - LOG_BYTES)
        file.seek(start)
        text = file.read(LOG_BYTES).decode(errors="replace")
    return text.partition("\n")[2] if start and "\n" in text else text
