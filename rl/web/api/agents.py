"""Agents and their experiments, to read: programs make neither."""

from django.db.models import OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from rl.models import BASE, Agent, Arm, Deployment, Experiment
from rl.web.api.auth import READ
from rl.web.api.base import ApiView
from rl.web.api.pagination import OfAgent
from rl.web.api.problems import operation


class AgentOut(serializers.ModelSerializer):
    in_use = serializers.CharField(help_text="The name of the version that answers, or base.")

    class Meta:
        model = Agent
        fields = ["name", "description", "base_model", "in_use", "online_learning", "created_at"]
        read_only_fields = fields


class AgentView(ApiView):
    scopes = {"GET": READ}
    queryset = Agent.objects.all()
    serializer_class = AgentOut

    def get_queryset(self) -> QuerySet[Agent]:
        champions = Deployment.objects.filter(agent=OuterRef("pk"), alias=Deployment.Alias.CHAMPION)
        return Agent.objects.annotate(in_use=Coalesce(Subquery(champions.values("version__name")[:1]), Value(BASE)))

    def filter_queryset(self, queryset: QuerySet) -> QuerySet:
        return queryset if self.key.agent_id is None else queryset.filter(pk=self.key.agent_id)


class AgentList(AgentView):
    @operation("list_agents", "List agents, newest first", {200: AgentOut(many=True)}, 400, 404, tags=["agents"])
    def get(self, request: Request) -> Response:
        return self.list_rows(AgentOut)


class AgentDetail(AgentView):
    @operation("get_agent", "One agent", {200: AgentOut}, 400, 404, tags=["agents"])
    def get(self, request: Request, agent: str) -> Response:
        self.refuse_unknown_parameters()
        return Response(AgentOut(self.get_queryset().get(pk=self.find_agent(agent).pk)).data)


class ArmOut(serializers.ModelSerializer):
    name = serializers.CharField(help_text="The version, with @ and the number of answers where it has one of its own.")

    class Meta:
        model = Arm
        fields = ["name", "is_control", "weight", "is_stopped", "requests", "failures"]
        read_only_fields = fields


class ExperimentOut(serializers.ModelSerializer):
    agent = serializers.CharField(source="agent.name")
    arms = ArmOut(many=True)

    class Meta:
        model = Experiment
        fields = [
            *("id", "agent", "name", "state", "metric", "minimum_effect", "confidence", "arms"),
            *("verdict", "reason", "created_at", "started_at", "stopped_at"),
        ]
        read_only_fields = fields


class ExperimentFilter(OfAgent):
    class Meta:
        model = Experiment
        fields = ["state"]


class ExperimentView(ApiView):
    scopes = {"GET": READ}
    queryset = Experiment.objects.select_related("agent").prefetch_related("arms__version")
    serializer_class = ExperimentOut


class ExperimentList(ExperimentView):
    filterset_class = ExperimentFilter

    @operation(
        "list_experiments", "List experiments, newest first", {200: ExperimentOut(many=True)}, 400, 404, tags=["agents"]
    )
    def get(self, request: Request) -> Response:
        return self.list_rows(ExperimentOut)


class ExperimentDetail(ExperimentView):
    @operation("get_experiment", "One experiment", {200: ExperimentOut}, 400, 404, tags=["agents"])
    def get(self, request: Request, pk: int) -> Response:
        self.refuse_unknown_parameters()
        return Response(ExperimentOut(self.get_object()).data)
