"""GET ``/api/layer2/rl-status/`` and ``/api/layer2/rl-history/``: how the learning goes, of one agent.

Which one: that of the key or of the origin; else ``?agent=NAME``, or the only one with widgets.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from django.db.models import Prefetch
from rest_framework.request import Request
from rest_framework.response import Response

from rl.base.errors import UsageError
from rl.from_systems.command_center.api import PageView
from rl.from_systems.command_center.dataset import the_agent
from rl.from_systems.command_center.learner import status_of
from rl.models import Agent, Evaluation, TrainingRun
from rl.web.api.problems import BadRequest

MOST_RUNS, LONGEST_ERROR = 500, 2000


class _OfAgent(PageView):
    @property
    def agent(self) -> Agent:
        """Raises BadRequest."""
        if self.caller.agent_id is not None:
            return Agent.objects.get(pk=self.caller.agent_id)
        try:
            return Agent.by_name(self.request.GET.get("agent") or the_agent())
        except UsageError as error:
            raise BadRequest(str(error)) from None


class Status(_OfAgent):
    def get(self, request: Request) -> Response:
        return Response({"agent": self.agent.name, **status_of(self.agent)})


class History(_OfAgent):
    def get(self, request: Request) -> Response:
        runs = self.agent.runs.select_related("version").order_by("-created_at", "-pk")
        runs = runs.prefetch_related(Prefetch("version__evaluations", Evaluation.objects.defer("report")))
        limit = self.number("limit", MOST_RUNS, 1, MOST_RUNS)
        return Response({"history": [_run(run) for run in runs[:limit]], "total": runs.count()})


def _run(run: TrainingRun) -> dict[str, Any]:
    evaluations = run.version.evaluations.all() if run.version else ()
    evaluation = max(evaluations, key=attrgetter("created_at"), default=None)
    return {
        "run": run.pk,
        "method": run.method,
        "state": run.state,
        "step": run.step,
        "version": run.version.name if run.version else None,
        "verdict": evaluation.verdict if evaluation else None,
        "accuracy": evaluation.accuracy if evaluation else None,
        "base_accuracy": evaluation.base_accuracy if evaluation else None,
        "created_at": run.created_at,
        "finished_at": run.finished_at,
        "error": run.error[:LONGEST_ERROR],
    }
