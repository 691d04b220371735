"""The addresses that Command Center's rating page and its production client call, with their own answers and errors.

GET and POST ``/api/ratings/``, POST ``/api/ratings/bulk/``, POST ``/api/layer2/feedback/``; GET
``/api/layer2/rl-status/`` and ``/api/layer2/rl-history/`` of one agent: that of the key or of the origin, else
``?agent=NAME``, or the only one with widgets. An error is ``{"error": text}`` or, where fields are wrong, ``{field:
[text, …]}``."""

from collections import Counter
from operator import attrgetter
from typing import Any

from django.db.models import Prefetch
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import Throttled, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param
from rest_framework.views import APIView

from rl.base.errors import UsageError
from rl.collect.feedback.events import observation
from rl.collect.feedback.waiting import NoRoom
from rl.collect.feedback.write import CHUNK, append
from rl.collect.limits import MAX_ID_LENGTH
from rl.from_systems.command_center import rows
from rl.from_systems.command_center.callers import SCOPES, MayRate, PageAuthentication, PageCaller, caller_of
from rl.from_systems.command_center.learner import status_of
from rl.from_systems.command_center.trainer import the_agent
from rl.models import Agent, Evaluation, TrainingRun
from rl.web.api.base import RequestsPerMinute, success
from rl.web.api.problems import BadRequest, TooLarge, summary

MOST_ROWS, LAST_OFFSET = 5000, 1_000_000
SEND_IN_PARTS = "send them in parts, or import the page's export with import_traces"


@extend_schema(exclude=True)
class PageView(APIView):
    authentication_classes = [PageAuthentication]
    permission_classes = [MayRate]
    scopes = SCOPES
    throttle_classes = [RequestsPerMinute]

    @property
    def caller(self) -> PageCaller:
        return caller_of(self.request)

    def handle_exception(self, exc: Exception) -> Response:
        """In the form of Command Center's own errors."""
        response = super().handle_exception(exc)
        if isinstance(exc, ValidationError) and isinstance(exc.detail, dict):
            body: Any = exc.detail
        else:
            body = {"error": response.data.get("detail", "") if isinstance(response.data, dict) else str(exc)}
        kept = ("WWW-Authenticate", "Retry-After")
        headers = {name: response[name] for name in kept if response.has_header(name)}
        return Response(body, status=response.status_code, headers=headers)

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A query parameter. Raises BadRequest."""
        text = self.request.GET.get(name, str(default))
        if not (text.isascii() and text.isdecimal() and len(text) < 10 and least <= int(text) <= most):
            raise BadRequest(f"{name} must be a whole number from {least} to {most}")
        return int(text)

    def read_object(self) -> dict[str, Any]:
        """Raises BadRequest."""
        if not isinstance(self.request.data, dict):
            raise BadRequest("the body must be a JSON object")
        return self.request.data


class EntryRatings(PageView):
    def get(self, request: Request) -> Response:
        """A bare list, as its page wants it. What does not fit is on the next page, to which a header leads."""
        start = self.number("offset", 0, 0, LAST_OFFSET)
        most = self.number("limit", MOST_ROWS, 1, MOST_ROWS)
        listed = rows.list_rows(self.caller, start, most)
        headers = {"X-Total-Count": str(listed.total)}
        if listed.has_more:
            next_page = replace_query_param(request.build_absolute_uri(), "offset", start + len(listed.rows))
            headers["Link"] = f'<{next_page}>; rel="next"'
        return Response(listed.rows, headers=headers)

    def post(self, request: Request) -> Response:
        body = self.read_object()
        if not body.get("entry_id"):
            raise BadRequest("entry_id is required")
        data = rows.OneRating().run_validation(body)
        outcome = rows.store(self.caller, [rows.thumb_of(data, data["entry_id"], data["device_id"])])[0]
        if isinstance(outcome, NoRoom):
            raise Throttled(detail=str(outcome))
        if isinstance(outcome, UsageError):
            raise outcome
        return Response(rows.rows_of([outcome.rating])[0], status=success(outcome.created))


class BulkRatings(PageView):
    """What cannot be stored is named under ``rejected``, which Command Center does not know; the rest is stored."""

    def post(self, request: Request) -> Response:
        body = self.read_object()
        ratings = body.get("ratings")
        if not isinstance(ratings, dict):
            raise BadRequest("ratings must be an object")
        if len(ratings) > CHUNK:
            raise TooLarge(f"at most {CHUNK} ratings at a time, not {len(ratings)}; {SEND_IN_PARTS}")
        device_id = rows.Device().run_validation(body)["device_id"]
        thumbs, rejected = [], []
        for entry_id, document in ratings.items():
            try:
                if not entry_id or len(entry_id) > MAX_ID_LENGTH:
                    raise ValidationError({"entry_id": [f"must have 1 to {MAX_ID_LENGTH} characters"]})
                thumbs.append(rows.thumb_of(rows.RatingOfMany().run_validation(document), entry_id, device_id))
            except ValidationError as error:
                rejected.append({"entry_id": entry_id, "reason": summary(error)})
        counts: Counter[bool] = Counter()
        for thumb, outcome in zip(thumbs, rows.store(self.caller, thumbs), strict=True):
            if isinstance(outcome, UsageError):
                rejected.append({"entry_id": thumb.entry_id, "reason": str(outcome)})
            else:
                counts[outcome.created] += 1
        answer = {"created": counts[True], "updated": counts[False], "total": counts.total()}
        return Response({**answer, **({"rejected": rejected} if rejected else {})})


class AnswerFeedback(PageView):
    """A thumb on an answer of the production system. A correction is what the person wrote about it, not another answer:
    it becomes the rating's note."""

    def post(self, request: Request) -> Response:
        try:
            data = rows.AnswerThumb().run_validation(self.read_object())
        except ValidationError as error:
            raise BadRequest(summary(error)) from None
        caller = self.caller
        trace = rows.find_answer(caller, data["query_id"])
        if trace is None:
            return Response({"status": "not_found", "updated": False}, status=404)
        thumb = rows.thumb_of({**data, "notes": data.get("correction")}, data["query_id"], "")
        rows.rate(caller, [(trace, thumb)])
        # one outcome for each kind of interaction: how often it happened
        counts = Counter(str(interaction["action"]).strip() for interaction in data.get("interactions") or ())
        common: dict[str, Any] = {"rater": "device:", "source": rows.SOURCE, "api_key": caller.key}
        append(
            [observation(trace, metric=f"interaction:{name}", value=count, **common) for name, count in counts.items()]
        )
        return Response({"status": "ok", "updated": True})


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


class RunHistory(_OfAgent):
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
