"""N3's calls: score an answer, train a policy, list what was trained. camelCase, in and out."""

from dataclasses import replace
from functools import partial
from typing import Any

from django.urls import reverse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, PolymorphicProxySerializer
from rest_framework import serializers, status
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from rl.base.errors import NotEnoughData
from rl.collect.feedback.write import rate
from rl.collect.limits import MAX_NOTES_LENGTH
from rl.collect.storable import unstorable
from rl.collect.traces.imported import problem
from rl.collect.traces.write import TOO_MANY_AGENTS, TraceStore
from rl.from_systems.n3 import policies
from rl.from_systems.n3.feedback_file import RATER, scored_answer
from rl.models import ModelVersion, TrainingRun
from rl.web.api.auth import INGEST, READ, TRAIN
from rl.web.api.base import ApiView
from rl.web.api.pagination import flag, row_limit
from rl.web.api.problems import BAD_BODY, BAD_CHANGE, BadRequest, operation
from rl.web.api.serializers.fields import NumberField, StrictSerializer, TextField
from rl.web.front.answers import LONGEST_WAIT, Later


class PolicyFeedbackIn(StrictSerializer):
    prompt = TextField(help_text="What the agent was asked.")
    response = TextField(help_text="What it answered.")
    score = NumberField(min_value=0, max_value=1, help_text="0 is bad, 1 is good.")
    runId = TextField(
        required=False, allow_null=True, max_length=200, help_text="Tells equal answers of two runs apart."
    )
    notes = TextField(required=False, allow_null=True, allow_blank=True, max_length=MAX_NOTES_LENGTH)


class PolicyFeedbackOut(serializers.Serializer):
    status = serializers.CharField(help_text="submitted")
    id = serializers.CharField(help_text="Of the feedback event.")
    agentId = serializers.CharField()
    score = serializers.FloatField()
    createdAt = serializers.DateTimeField()


class TrainPolicyIn(serializers.Serializer):
    """Beside these, any hyper-parameter of the method, in camelCase."""

    dryRun = serializers.BooleanField(
        required=False, default=False, help_text="Say what would be trained, and do nothing."
    )
    method = TextField(required=False, help_text="Default: the one that training_plan advises.")
    baseModel = TextField(required=False, help_text="Default: the agent's.")
    maxSteps = serializers.IntegerField(required=False, min_value=0, help_text="Optimiser steps; 0: by epochs.")
    learningRate = NumberField(required=False)
    rewardModel = TextField(
        required=False,
        allow_null=True,
        help_text="Name of a reward model's version, for methods that generate; ppo takes the newest where it is left out.",
    )
    full = serializers.BooleanField(required=False, help_text="Train all weights instead of an adapter.")


class ModelConfigOut(serializers.Serializer):
    base_model = serializers.CharField()
    use_lora = serializers.BooleanField()
    lora_r = serializers.IntegerField(allow_null=True)
    learning_rate = serializers.FloatField()


class TrainPolicyDryRun(serializers.Serializer):
    status = serializers.CharField(help_text="dry_run")
    method = serializers.CharField()
    feedbackCount = serializers.IntegerField()
    estimatedSteps = serializers.IntegerField(allow_null=True, help_text="null: the base model is not here yet.")
    estimatedTimeMinutes = serializers.FloatField(allow_null=True)
    scoreMean = serializers.FloatField(allow_null=True)
    scoreStd = serializers.FloatField(allow_null=True)
    modelConfig = ModelConfigOut()


class _Figures(serializers.Serializer):
    feedbackCount = serializers.IntegerField(allow_null=True)
    rewardMean = serializers.FloatField(
        allow_null=True,
        help_text="Of the policy's fresh answers by rewardModel, -1 to 1; without one, of its return in training, less its "
        "KL penalty; null: not measured.",
    )
    rewardStd = serializers.FloatField(allow_null=True)
    rewardModel = serializers.CharField(
        allow_null=True, help_text="The newest reward model, where it scored fresh answers."
    )
    scoreMean = serializers.FloatField(allow_null=True, help_text="Of the scores that it learned from, 0 to 1.")
    scoreStd = serializers.FloatField(allow_null=True)


class PolicyRunOut(_Figures):
    status = serializers.CharField(help_text="queued, running, trained, failed or cancelled.")
    runUrl = serializers.CharField(help_text="Ask here again.")
    method = serializers.CharField()
    step = serializers.IntegerField()
    totalSteps = serializers.IntegerField()
    error = serializers.CharField(allow_blank=True)
    detail = serializers.CharField(required=False, help_text="Why it failed.")
    policyId = serializers.CharField(allow_null=True)
    version = serializers.CharField(allow_null=True)
    modelPath = serializers.CharField(
        allow_null=True,
        help_text="The directory of the adapter or the model, with its tokenizer, on the site's machine.",
    )
    rewardModelPath = serializers.CharField(allow_null=True)
    trainingSteps = serializers.IntegerField()


class PolicyOut(serializers.Serializer):
    id = serializers.CharField()
    agentId = serializers.CharField()
    version = serializers.CharField()
    createdAt = serializers.DateTimeField()
    trainedOn = _Figures()
    metrics = _Figures(help_text="The same as trainedOn.")


SOURCE = "policies"
policy_call = partial(operation, tags=[SOURCE])
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

    @policy_call(
        "score_answer",
        "Score one answer of an agent",
        {200: PolicyFeedbackOut},
        *BAD_BODY,
        404,
        description="The same answer of the same run may be scored again; the newest score counts. The agent is made if "
        "there is none of this name, unless the key is for another.",
    )
    def post(self, request: Request, agent: str) -> Response:
        data = self.check_body(PolicyFeedbackIn)
        scored = scored_answer(data["prompt"], data["response"], data.get("runId") or "", timezone.now())
        # an agent that is not there yet may be named by a key that is for all
        is_free = self.key.agent is None and not unstorable(agent)
        record = replace(scored, agent=agent if is_free else self.find_agent(agent).name)
        if reason := problem(record):
            raise BadRequest(reason)
        (trace,) = TraceStore(SOURCE, agent=self.key.agent).take([record])
        if trace is None:
            raise BadRequest(TOO_MANY_AGENTS)
        about: dict[str, Any] = {"notes": data.get("notes") or "", "source": SOURCE, "api_key": self.key}
        event = rate(trace, rater=RATER, scale="score", value=data["score"], **about).event
        answer = {"status": "submitted", "id": str(event.pk), "agentId": trace.agent.name, "score": event.value}
        return Response({**answer, "createdAt": event.created_at})


class TrainPolicy(ApiView):
    scopes = {"POST": TRAIN}
    serializer_class = TrainPolicyIn

    @policy_call(
        "train_policy",
        "Train an agent on what was said about its answers",
        {200: TrainPolicyDone, 202: PolicyRunOut, 500: PolicyRunOut},
        *BAD_CHANGE,
        parameters=[WAIT],
        description=f"Fewer than {policies.FEWEST} scored answers are refused, with how many are missing. Beside the fields "
        "below, any hyper-parameter of the method in camelCase. The queue does the training, and the answer waits for it; "
        "202 where that takes longer, and 500 with `detail` where the training fails.",
    )
    def post(self, request: Request, agent: str) -> Response:
        self.refuse_unknown_parameters("wait")
        trained_agent = self.find_agent(agent)
        waits = flag(request.query_params, "wait", True)
        if not isinstance(request.data, dict):
            raise ValidationError(["send one JSON object"])
        known = {name: value for name, value in request.data.items() if name in TrainPolicyIn().fields}
        checked = TrainPolicyIn(data=known)
        checked.is_valid(raise_exception=True)
        options = {**request.data, **checked.validated_data}  # the others are hyper-parameters
        try:
            if options.pop("dryRun"):
                return Response(policies.estimate_training(trained_agent, options))
            run = policies.train(trained_agent, options)
        except NotEnoughData as error:
            raise BadRequest(str(error)) from error
        return RunResponse(run, waits=waits, failed=status.HTTP_500_INTERNAL_SERVER_ERROR)


class PolicyRun(ApiView):
    scopes = {"GET": READ}

    @policy_call(
        "get_policy_run",
        "What became of a training",
        {200: PolicyRunOut, 202: PolicyRunOut},
        400,
        404,
        parameters=[WAIT],
        description="202 as long as it goes on.",
    )
    def get(self, request: Request, agent: str, pk: int) -> Response:
        self.refuse_unknown_parameters("wait")
        run = self.find_agent(agent).runs.select_related("agent", "version__agent").filter(pk=pk).first()
        if run is None:
            raise NotFound(f"{agent} has no run {pk}")
        return RunResponse(run, waits=flag(request.query_params, "wait", False))


class PolicyList(ApiView):
    scopes = {"GET": READ}
    queryset = ModelVersion.objects.all()
    pagination_class = None

    @policy_call(
        "list_policies",
        "What an agent's trainings have made, the newest first",
        {200: PolicyOut(many=True)},
        400,
        404,
        parameters=[LIMIT],
    )
    def get(self, request: Request, agent: str) -> Response:
        self.refuse_unknown_parameters("limit")
        rows = self.find_agent(agent).versions.select_related("agent")
        return Response(policies.as_policies(list(rows[: row_limit(request, 100, MOST_POLICIES)])))


class RunResponse(Response):
    """202 until the run has ended."""

    def __init__(self, run: TrainingRun, *, waits: bool, failed: int = status.HTTP_200_OK) -> None:
        """``waits``: the front holds the answer until then, without a thread. ``failed``: the status of an answer that tells
        of a training that made nothing."""
        url = reverse("api-policy-run", args=[run.agent.name, run.pk])
        answer = _answer(run, url, failed)
        super().__init__(answer[1], status=answer[0], headers={"Location": url})

        def render() -> tuple[int, bytes]:
            again = TrainingRun.objects.select_related("agent", "version__agent").get(pk=run.pk)
            code, document = _answer(again, url, failed)
            return code, JSONRenderer().render(document)

        self.later = Later(run.pk, render) if waits and run.is_active else None


def _answer(run: TrainingRun, url: str, failed: int) -> tuple[int, dict[str, Any]]:
    """Status and body; ``detail`` says why a training made nothing, as N3's errors do."""
    document = policies.as_result(run, url)
    if run.is_active:
        return status.HTTP_202_ACCEPTED, document
    if run.state == TrainingRun.State.SUCCEEDED:
        return status.HTTP_200_OK, document
    return failed, {**document, "detail": run.error or f"the training was {run.state}"}
