"""What a function in Open WebUI sends at once: rows of feedback as its API has them."""

from typing import Any, Final

from rest_framework.request import Request
from rest_framework.response import Response

from rl.collect.traces.write import TraceStore
from rl.from_systems.sources.openwebui import FORMAT, read_rows
from rl.models import Agent
from rl.web.api.auth import INGEST
from rl.web.api.base import ApiView
from rl.web.api.problems import BadRequest

MOST: Final = 100
"""Rows of one call."""
NO_AGENT: Final = "this key is bound to no agent: make one with 'manage.py api_key create --agent NAME --make-agent'"


class FeedbackRows(ApiView):
    """One row, or a list of them; the key says whose answers these are."""

    scopes = {"POST": INGEST}
    schema = None

    def post(self, request: Request) -> Response:
        rows: list[Any] = request.data if isinstance(request.data, list) else [request.data]
        if len(rows) > MOST or not all(isinstance(row, dict) for row in rows):
            raise BadRequest(f"send a row of Open WebUI's feedback, or a list of at most {MOST}")
        agent: Agent | None = self.key.agent
        if agent is None:
            raise BadRequest(NO_AGENT)
        store = TraceStore(FORMAT, agent=agent)
        store.take(read_rows(rows))
        return Response({**store.report.feedback.as_dict(), "refused": dict(store.report.traces.skipped)})
