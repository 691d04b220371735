"""Versions: which there are, what was measured of them, which one is in use, and what an agent is told."""

from django.db.models import OuterRef, QuerySet, Subquery
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from rl.base.errors import RunConflict
from rl.base.manner import LONGEST, PLACES, QUESTION
from rl.models import Deployment, Evaluation, ModelVersion, version_name
from rl.serving import instructions, overview, promotion
from rl.web.api.auth import DEPLOY, READ
from rl.web.api.base import ApiView, success
from rl.web.api.pagination import OfAgent
from rl.web.api.problems import BAD_CHANGE, operation
from rl.web.api.serializers.fields import NameField, StrictSerializer, TextField


class VersionOut(serializers.ModelSerializer):
    agent = serializers.CharField(source="agent.name")
    in_use = serializers.SerializerMethodField(help_text="It answers whoever asks for the agent.")
    served_as = serializers.SerializerMethodField(help_text="Its names on the servers that serve it.")
    verdict = serializers.CharField(allow_null=True, help_text="The gate's newest; null: not measured.")

    class Meta:
        model = ModelVersion
        fields = [
            *("id", "agent", "name", "stage", "in_use", "served_as", "verdict"),
            *("instruction", "instruction_place", "feedback_count", "created_at"),
        ]
        read_only_fields = fields

    def get_in_use(self, version: ModelVersion) -> bool:
        return any(row.alias == Deployment.Alias.CHAMPION for row in version.deployments.all())

    def get_served_as(self, version: ModelVersion) -> list[str]:
        return [row.model_name for row in version.deployments.all() if row.target != Deployment.Target.NONE]


class VersionFilter(OfAgent):
    class Meta:
        model = ModelVersion
        fields: list[str] = []


class VersionView(ApiView):
    serializer_class: type[serializers.Serializer] = VersionOut

    def get_queryset(self) -> QuerySet[ModelVersion]:
        newest = Evaluation.objects.filter(version=OuterRef("pk"), artifact=None).order_by("-created_at")
        rows = ModelVersion.objects.select_related("agent", "run").prefetch_related("deployments")
        return rows.annotate(verdict=Subquery(newest.values("verdict")[:1]))

    def show(self, version: ModelVersion, code: int = status.HTTP_200_OK) -> Response:
        """Reads it anew: it may have changed."""
        return Response(VersionOut(self.get_queryset().get(pk=version.pk)).data, status=code)


class VersionList(VersionView):
    scopes = {"GET": READ}
    queryset = ModelVersion.objects.all()
    filterset_class = VersionFilter

    @operation(
        "list_versions", "List versions, newest first", {200: VersionOut(many=True)}, 400, 404, tags=["versions"]
    )
    def get(self, request: Request) -> Response:
        return self.list_rows(VersionOut)


class VersionDetail(VersionView):
    scopes = {"GET": READ}

    @operation("get_version", "One version", {200: VersionOut}, 400, 404, tags=["versions"])
    def get(self, request: Request, pk: int) -> Response:
        self.refuse_unknown_parameters()
        return Response(VersionOut(self.get_object()).data)


class VersionServe(VersionView):
    scopes = {"POST": DEPLOY}

    @operation(
        "serve_version",
        "Serve a version beside the one in use",
        {202: VersionOut},
        400,
        404,
        tags=["versions"],
        request=None,
        description="The queue does it, on the agent's target; `served_as` has its name then. 400 says why it cannot be: "
        "no exported file, a reward model, served already.",
    )
    def post(self, request: Request, pk: int) -> Response:
        version = self.get_object()
        overview.enqueue(version)
        return self.show(version, status.HTTP_202_ACCEPTED)


class VersionPromote(VersionView):
    scopes = {"POST": DEPLOY}

    @operation(
        "promote_version",
        "Put a version into use",
        {200: VersionOut},
        400,
        404,
        409,
        tags=["versions"],
        request=None,
        description="At once, whatever the gate says, as the decision of whoever holds the key. 409: nothing serves it, so "
        "nobody would be answered.",
    )
    def post(self, request: Request, pk: int) -> Response:
        version = self.get_object()
        version.require_answers()
        if not overview.is_served(version.agent, version):
            raise RunConflict(f"nothing serves {version.name}: serve it first")
        promotion.promote(version.agent, version)
        return self.show(version)


class AgentNamed(StrictSerializer):
    agent = NameField(help_text="Its name.")


class InUse(serializers.Serializer):
    agent = serializers.CharField()
    in_use = serializers.CharField(help_text="The name of a version, or base.")


class RollBack(ApiView):
    scopes = {"POST": DEPLOY}
    serializer_class = AgentNamed

    @operation(
        "roll_back",
        "Go back to the version before",
        {200: InUse},
        *BAD_CHANGE,
        tags=["versions"],
        description="In one step; twice changes nothing. 400 where the agent has used its base model only.",
    )
    def post(self, request: Request) -> Response:
        agent = self.find_agent(self.check_body(AgentNamed)["agent"])
        return Response({"agent": agent.name, "in_use": version_name(promotion.roll_back(agent))})


class InstructionIn(AgentNamed):
    text = TextField(max_length=LONGEST, help_text="A sentence, such as: Answer in one short sentence.")
    instruction_place = serializers.ChoiceField(
        PLACES, default=QUESTION, help_text="Behind the last question, or in the system."
    )
    use = serializers.BooleanField(default=False, help_text="Put it into use at once.")


class InstructionList(VersionView):
    scopes = {"POST": DEPLOY}
    serializer_class = InstructionIn

    @operation(
        "instruct",
        "Tell an agent something with every question",
        {200: VersionOut, 201: VersionOut},
        *BAD_CHANGE,
        tags=["versions"],
        description="Makes a version of what is in use, without a training, and serves it by the same server. 200: the same "
        "words on the same weights are a version already.",
    )
    def post(self, request: Request) -> Response:
        asked = self.check_body(InstructionIn)
        agent = self.find_agent(asked["agent"])
        newest = agent.versions.order_by("-pk").values_list("pk", flat=True).first() or 0
        version = instructions.instruct(agent, asked["text"], asked["instruction_place"])
        if asked["use"]:
            promotion.promote(agent, version)
        return self.show(version, success(version.pk > newest))
