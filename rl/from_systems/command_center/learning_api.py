"""GET ``/api/layer2/rl-status/`` and ``/api/layer2/rl-history/``: how the learning goes, of one agent.

Which one: that of the key or of the origin; else ``?agent=NAME``, or the only one with widgets.
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from rl.base.errors import UsageError
from rl.from_systems.command_center.api import PageView
from rl.from_systems.command_center.dataset import the_agent
from rl.from_systems.command_center.learner import status_of
from rl.models import Agent, TrainingRun
from rl.web.api.problems import BadRequest

MOST_RUNS = 500


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


@extend_schema(exclude=True)
class Status(_OfAgent):
    def get(self, request: Request) -> Response:
        return Response({"agent": self.agent.name, **status_of(self.agent)})


@extend_schema(exclude=True)
class History(_OfAgent):
    def get(self, request: Request) -> Response:
        runs = self.agent.runs.select_related("version").order_by("-created_at", "-pk")
        return Response({"history": [_run(run) for run in runs[: self._limit()]], "total": runs.count()})

    def _limit(self) -> int:
        """Raises BadRequest."""
        text = self.request.GET.get("limit", str(MOST_RUNS))
        if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= MOST_RUNS):
            raise BadRequest(f"limit must be a whole number from 1 to {MOST_RUNS}")
        return int(text)


def _run(run: TrainingRun) -> dict[str, Any]:
    evaluation = run.version.evaluations.order_by("-created_at").first() if run.version else None
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
        "error": run.error,
    }
