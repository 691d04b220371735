"""The database. Code outside imports from this package only; inside, imports run one way:

agents <- traces <- versions <- training <- feedback, serving, experiments, episodes;  traces <- labels, pairs;
feedback, pairs <- queues;  agents, access <- waiting;
access, audit, prompts and webhooks stand alone.

Imports: base, config; Django.
"""

from __future__ import annotations

from rl.models.access import ApiKey, usual_scopes
from rl.models.agents import Agent
from rl.models.audit import AuditEvent
from rl.models.episodes import Episode
from rl.models.experiments import METRICS, Arm, Assignment, Experiment
from rl.models.feedback import Feedback, Quarantine
from rl.models.labels import LabelModel, LabelProposal
from rl.models.pairs import AnswerPair
from rl.models.prompts import QuestionStart, UserTurns
from rl.models.queues import Claim, GoldItem, Invite, RatingQueue
from rl.models.serving import Deployment
from rl.models.traces import RunPart, Trace, prompt_key
from rl.models.training import MetricPoint, TrainingRun, TrainingSet, TrainingSetTrace
from rl.models.versions import BASE, Artifact, Evaluation, ModelVersion, version_name
from rl.models.waiting import PendingSpan, WaitingRating
from rl.models.webhooks import WebhookDelivery

__all__ = [
    "BASE",
    "METRICS",
    "Agent",
    "AnswerPair",
    "ApiKey",
    "Arm",
    "Artifact",
    "Assignment",
    "AuditEvent",
    "Claim",
    "Deployment",
    "Episode",
    "Evaluation",
    "Experiment",
    "Feedback",
    "GoldItem",
    "Invite",
    "LabelModel",
    "LabelProposal",
    "MetricPoint",
    "ModelVersion",
    "PendingSpan",
    "Quarantine",
    "QuestionStart",
    "RatingQueue",
    "RunPart",
    "Trace",
    "TrainingRun",
    "TrainingSet",
    "TrainingSetTrace",
    "UserTurns",
    "WaitingRating",
    "WebhookDelivery",
    "prompt_key",
    "usual_scopes",
    "version_name",
]
