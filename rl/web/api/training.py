"""Asks for rewards, says what there is to learn from, how far a training run is, and ends it."""

from statistics import fmean

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from rl.collect.traces import records as trace_records
from rl.config import PRESETS
from rl.models import Trace, TrainingRun
from rl.runs import supervisor
from rl.runs.dry_run import require_data
from rl.runs.effort import EFFORTS
from rl.scoring import stored as rewarding
from rl.serving.dialects.dialect import event
from rl.web.api.auth import READ, TRAIN
from rl.web.api.base import ApiView
from rl.web.api.events import EventRenderer, EventResponse
from rl.web.api.pagination import OfAgent, keys_within
from rl.web.api.problems import BAD_BODY, BAD_CHANGE, operation
from rl.web.api.serializers.fields import NameField, StrictSerializer
from rl.web.kept_figures import training_stats
from rl.web.run_wishes import METHOD_WORDS, read_wish

NEWEST, MOST_TOOLS = 1000, 500
"""Traces that are read for what no index knows, fewer where they are large; names of tools that are listed."""
_COLUMNS = ("prompt", "response", "tool_calls", "reasoning_steps", "tokens_in", "tokens_out", "cost")


class Nothing(StrictSerializer):
    """An empty body."""


class Pending(serializers.Serializer):
    pending = serializers.IntegerField(
        help_text="Traces that waited when you asked, of the agents that the key is for."
    )


class CalculatePending(ApiView):
    scopes = {"POST": TRAIN}
    serializer_class = Nothing

    @operation(
        "calculate_pending_rewards",
        "Compute the rewards of the traces that wait",
        {202: Pending},
        *BAD_BODY,
        tags=["training"],
        description="The queue does it in the background. Asking again while it is at work does no harm.",
    )
    def post(self, request: Request) -> Response:
        self.check_body(Nothing)
        pending = rewarding.waiting(self.key.agent_id)
        if pending:
            rewarding.enqueue()
        return Response({"pending": pending}, status=status.HTTP_202_ACCEPTED)


class TrainingStats(ApiView):
    scopes = {"GET": READ}

    @operation(
        "training_stats",
        "What an agent can learn from",
        {200: OpenApiTypes.OBJECT},
        400,
        404,
        tags=["training"],
        parameters=[OpenApiParameter("agentType", str, description="Name of the agent; needless with its own key.")],
        description=f"Counts over all of its traces, of many up to a minute old; `newest` over the newest {NEWEST}.",
    )
    def get(self, request: Request) -> Response:
        self.refuse_unknown_parameters("agentType")
        name = request.query_params.get("agentType", "")
        agent = self.find_agent(name) if name else self.key.agent
        if agent is None:
            raise ValidationError({"agentType": ["say which agent"]})
        stats = training_stats(agent)
        sessions = agent.traces.order_by().exclude(session_id="").values("session_id").distinct()
        toolbox_v2 = {
            "total_traces": stats["traces"],
            "unique_sessions": sessions.count(),  # distinct rows in the order of their index
            "labeled_traces": stats["rated_traces"],
            "unlabeled_traces": stats["traces"] - stats["rated_traces"],
        }
        newest = keys_within(Trace.objects.filter(agent=agent).order_by("-created_at", "id"), NEWEST)
        traces = list(Trace.objects.filter(pk__in=newest).only(*_COLUMNS))
        tools = {call.tool_name for trace in traces for call in trace_records.tool_calls(trace.tool_calls)}
        return Response(
            {
                **stats,
                **toolbox_v2,
                "newest": {
                    "traces": len(traces),
                    "traces_with_tool_calls": sum(bool(trace.tool_calls) for trace in traces),
                    "traces_with_reasoning": sum(bool(trace.reasoning_steps) for trace in traces),
                    "unique_tools_used": len(tools),
                    "tools_list": sorted(tools)[:MOST_TOOLS],
                    "avg_query_length": _mean([len(trace.question) for trace in traces]),
                    "avg_response_length": _mean([len(trace.response) for trace in traces]),
                    "total_tokens_in": sum(trace.tokens_in or 0 for trace in traces),
                    "total_tokens_out": sum(trace.tokens_out or 0 for trace in traces),
                    "total_cost": sum(trace.cost or 0 for trace in traces),
                },
            }
        )


def _mean(lengths: list[int]) -> float:
    return round(fmean(lengths), 1) if lengths else 0.0


class RunOut(serializers.ModelSerializer):
    agent = serializers.CharField(source="agent.name")
    version = serializers.CharField(source="version.name", allow_null=True, default=None, help_text="That it made.")

    class Meta:
        model = TrainingRun
        fields = [
            *("id", "agent", "method", "state", "stage", "step", "total_steps"),
            *("cancel_requested", "version", "error", "created_at", "started_at", "finished_at"),
        ]
        read_only_fields = fields


class RunView(ApiView):
    queryset = TrainingRun.objects.select_related("agent", "version")
    serializer_class = RunOut

    def get_queryset(self) -> QuerySet:
        self.refuse_unknown_parameters()
        return super().get_queryset()


class RunFilter(OfAgent):
    class Meta:
        model = TrainingRun
        fields = ["state"]


class RunIn(StrictSerializer):
    agent = NameField(help_text="Its name.")
    method = serializers.ChoiceField(sorted(METHOD_WORDS), default=next(iter(METHOD_WORDS)))
    preset = serializers.ChoiceField(sorted(PRESETS), required=False, help_text="The agent's settings, if left out.")
    effort = serializers.ChoiceField(EFFORTS, required=False, help_text="How long it may take, in place of a preset.")


class RunList(ApiView):
    scopes = {"GET": READ, "POST": TRAIN}
    queryset = TrainingRun.objects.select_related("agent", "version")
    serializer_class = RunIn
    filterset_class = RunFilter

    @operation("list_runs", "List training runs, newest first", {200: RunOut(many=True)}, 400, 404, tags=["training"])
    def get(self, request: Request) -> Response:
        return self.list_rows(RunOut)

    @operation(
        "start_run",
        "Start a training run",
        {202: RunOut},
        *BAD_CHANGE,
        tags=["training"],
        description="As the button of the pages does: the queue trains, measures, and does with the version what the "
        "agent's settings say. 400 says what is missing, such as ratings; 409: the agent has a run that is not over.",
    )
    def post(self, request: Request) -> Response:
        asked = self.check_body(RunIn)
        chosen = {name: asked[name] for name in ("preset", "effort") if name in asked}
        wish = read_wish(self.find_agent(asked["agent"]), asked["method"], **chosen)
        require_data(wish.agent, wish.config, wish.options, wish.method)
        return Response(RunOut(wish.start()).data, status=status.HTTP_202_ACCEPTED)


class RunDetail(RunView):
    scopes = {"GET": READ}

    @operation("get_run", "How far a training run is", {200: RunOut}, 400, 404, tags=["training"])
    def get(self, request: Request, pk: int) -> Response:
        return Response(RunOut(self.get_object()).data)


class _RunFollower:
    def __init__(self, run: TrainingRun) -> None:
        self._run, self._sent = run.pk, b""

    def __call__(self) -> tuple[bytes, bool]:
        """The run with the figures of its newest step, where that is not what was sent last, and whether it goes on."""
        run = TrainingRun.objects.select_related("agent", "version").filter(pk=self._run).first()
        if run is None:
            return b"", False
        newest = run.metric_points.order_by("-step").first()
        now = event({**RunOut(run).data, "metrics": newest.values if newest else {}})
        sent, self._sent = self._sent, now
        return b"" if sent == now else now, run.is_active


_EVENT = {"type": "object", "properties": {"data": {"type": "string", "contentMediaType": "application/json"}}}


class RunEvents(RunView):
    scopes = {"GET": READ}
    renderer_classes = (JSONRenderer, EventRenderer)

    @operation(
        "follow_run",
        "Follow a training run",
        {(200, EventRenderer.media_type): _EVENT},
        400,
        404,
        tags=["training"],
        parameters=[OpenApiParameter("format", exclude=True)],
        description="Server-sent events, each the run with the `metrics` of its newest step, until it is over.",
    )
    def get(self, request: Request, pk: int) -> EventResponse:
        return EventResponse(_RunFollower(self.get_object()))


class RunCancel(RunView):
    scopes = {"POST": TRAIN}

    @operation(
        "cancel_run",
        "Cancel a training run",
        {200: RunOut, 202: RunOut},
        400,
        404,
        409,
        tags=["training"],
        request=None,
        description="200: it was waiting and is cancelled. 202: it is at work, keeps a checkpoint after its current step, "
        "and is cancelled then. 409: it is over already.",
    )
    def post(self, request: Request, pk: int) -> Response:
        run = self.get_object()
        is_over = supervisor.stop(run)
        return Response(RunOut(run).data, status=status.HTTP_200_OK if is_over else status.HTTP_202_ACCEPTED)
