"""N3's calls: score an answer, train a policy, list what was trained."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.urls import reverse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, PolymorphicProxySerializer
from rest_framework import status
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from rl.base.errors import NotEnoughData
from rl.collect.feedback.write import rate
from rl.collect.storable import unstorable
from rl.collect.traces.checks import problem
from rl.collect.traces.write import TOO_MANY_AGENTS, TraceStore
from rl.from_systems.n3 import policies
from rl.from_systems.n3.feedback_file import RATER, scored_answer
from rl.from_systems.n3.serializers import (
    PolicyFeedbackIn,
    PolicyFeedbackOut,
    PolicyOut,
    PolicyRunOut,
    TrainPolicyDryRun,
    TrainPolicyIn,
)
from rl.models import ModelVersion, TrainingRun
from rl.web.api.auth import INGEST, READ, TRAIN
from rl.web.api.base import ApiView
from rl.web.api.pagination import row_limit
from rl.web.api.problems import BAD_BODY, BadRequest, operation
from rl.web.front.answers import LONGEST_WAIT, Later

SOURCE = "policies"
WAIT = OpenApiParameter(
    "wait",
    bool,
    description=f"Answer when the run has ended, after {LONGEST_WAIT:.0f} s at most. true for POST, false for GET.",
)

MOST_POLICIES = 1000
LIMIT = OpenApiParameter(
    "limit", {"type": "integer", "minimum": 1, "default": 100}, description=f"At most so many, and {MOST_POLICIES}."
)


TrainPolicyDone = PolymorphicProxySerializer(
    "TrainPolicyDone", [TrainPolicyDryRun, PolicyRunOut], resource_type_field_name=None
)


class PolicyFeedback(ApiView):
    scopes = {"POST": INGEST}
    serializer_class = PolicyFeedbackIn

    @operation(
        "score_answer",
        "Score one answer of an agent",
        {200: PolicyFeedbackOut},
        *BAD_BODY,
        404,
        tags=["policies"],
        description="The same answer of the same run may be scored again; the newest score counts. The agent is made if "
        "there is none of this name, unless the key is for another.",
    )
    def post(self, request: Request, agent: str) -> Response:
        data = self.check_body(PolicyFeedbackIn)
        answer = scored_answer(data["prompt"], data["response"], data.get("runId") or "", timezone.now())
        record = replace(answer, agent=self._agent_name(agent))
        if reason := problem(record):
            raise BadRequest(reason)
        (trace,) = TraceStore(SOURCE, agent=self.key.agent).take([record])
        if trace is None:
            raise BadRequest(TOO_MANY_AGENTS)
        rated = rate(
            trace,
            rater=RATER,
            scale="score",
            value=data["score"],
            notes=data.get("notes") or "",
            source=SOURCE,
            api_key=self.key,
        )
        event = rated.event
        return Response(
            {
                "status": "submitted",
                "id": str(event.pk),
                "agentId": trace.agent.name,
                "score": event.value,
                "createdAt": event.created_at,
            }
        )

    def _agent_name(self, name: str) -> str:
        """An agent that is not there yet may be named by a key that is for all. Raises NotFound."""
        return name if self.key.agent is None and not unstorable(name) else self.find_agent(name).name


class TrainPolicy(ApiView):
    scopes = {"POST": TRAIN}
    serializer_class = TrainPolicyIn

    @operation(
        "train_policy",
        "Train an agent on what was said about its answers",
        {200: TrainPolicyDone, 202: PolicyRunOut, 500: PolicyRunOut},
        *BAD_BODY,
        404,
        409,
        tags=["policies"],
        parameters=[WAIT],
        description=f"Fewer than {policies.FEWEST} scored answers are refused, with how many are missing. Beside the fields "
        "below, any hyper-parameter of the method in camelCase. The queue does the training, and the answer waits for it; "
        "202 where that takes longer, and 500 with `detail` where the training fails.",
    )
    def post(self, request: Request, agent: str) -> Response:
        self.refuse_unknown_parameters("wait")
        trained_agent = self.find_agent(agent)
        waits = _is_true(request.query_params.get("wait", "true"))
        options = _training_options(request)
        try:
            if options.pop("dryRun"):
                return Response(policies.estimate_training(trained_agent, options))
            run = policies.train(trained_agent, options)
        except NotEnoughData as error:
            raise BadRequest(str(error)) from error
        return RunResponse(run, waits=waits, failed=status.HTTP_500_INTERNAL_SERVER_ERROR)


class PolicyRun(ApiView):
    scopes = {"GET": READ}
    queryset = TrainingRun.objects.all()

    @operation(
        "get_policy_run",
        "What became of a training",
        {200: PolicyRunOut, 202: PolicyRunOut},
        400,
        404,
        tags=["policies"],
        parameters=[WAIT],
        description="202 as long as it goes on.",
    )
    def get(self, request: Request, agent: str, pk: int) -> Response:
        self.refuse_unknown_parameters("wait")
        run = self.find_agent(agent).runs.select_related("agent", "version__agent").filter(pk=pk).first()
        if run is None:
            raise NotFound(f"{agent} has no run {pk}")
        return RunResponse(run, waits=_is_true(request.query_params.get("wait", "false")))


class PolicyList(ApiView):
    scopes = {"GET": READ}
    queryset = ModelVersion.objects.all()
    pagination_class = None

    @operation(
        "list_policies",
        "What an agent's trainings have made, the newest first",
        {200: PolicyOut(many=True)},
        400,
        404,
        tags=["policies"],
        parameters=[LIMIT],
    )
    def get(self, request: Request, agent: str) -> Response:
        self.refuse_unknown_parameters("limit")
        rows = self.find_agent(agent).versions.select_related("agent")
        return Response(policies.as_policies(list(rows[: row_limit(request, 100, MOST_POLICIES)])))


def _training_options(request: Request) -> dict[str, Any]:
    """The fields that the serializer knows, checked, and the others as they are: hyper-parameters."""
    if not isinstance(request.data, dict):
        raise ValidationError(["send one JSON object"])
    known = TrainPolicyIn(data={name: value for name, value in request.data.items() if name in TrainPolicyIn().fields})
    known.is_valid(raise_exception=True)
    return {**request.data, **known.validated_data}


class RunResponse(Response):
    """202 until the run has ended."""

    def __init__(self, run: TrainingRun, *, waits: bool, failed: int = status.HTTP_200_OK) -> None:
        """``waits``: the front holds the answer until then, without a thread. ``failed``: the status of an answer that tells
        of a training that made nothing."""
        url = reverse("api-policy-run", args=[run.agent.name, run.pk])
        answer = _answer(run, url, failed)
        super().__init__(answer[1], status=answer[0], headers={"Location": url})
        self.later = Later(run.pk, lambda: _render(run.pk, url, failed)) if waits and run.is_active else None


def _render(pk: int, url: str, failed: int) -> tuple[int, bytes]:
    run = TrainingRun.objects.select_related("agent", "version__agent").get(pk=pk)
    code, document = _answer(run, url, failed)
    return code, JSONRenderer().render(document)


def _answer(run: TrainingRun, url: str, failed: int) -> tuple[int, dict[str, Any]]:
    """Status and body; ``detail`` says why a training made nothing, as N3's errors do."""
    document = policies.as_result(run, url)
    if run.is_active:
        return status.HTTP_202_ACCEPTED, document
    if run.state == TrainingRun.State.SUCCEEDED:
        return status.HTTP_200_OK, document
    return failed, {**document, "detail": run.error or f"the training was {run.state}"}


def _is_true(value: str) -> bool:
    if value.lower() not in ("0", "1", "true", "false"):
        raise ValidationError({"wait": ["must be true or false"]})
    return value.lower() in ("1", "true")
