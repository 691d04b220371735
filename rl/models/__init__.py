"""The database. Code outside imports from this package only; inside, imports run one way:

agents <- traces <- versions <- training <- feedback <- queues;  versions <- serving <- experiments;
agents <- access <- feedback;  traces <- labels;  access, training <- tuning;  audit stands alone.

Imports: base, config; Django."""

# ruff: noqa: F401  what is imported here is imported from here
from rl.models.access import ApiKey, usual_scopes
from rl.models.agents import Agent
from rl.models.audit import AuditEvent, WebhookDelivery
from rl.models.experiments import METRICS, Arm, Assignment, Experiment
from rl.models.feedback import Feedback, PendingSpan, Quarantine, WaitingRating
from rl.models.labels import FollowUpLabel, LabelModel, LabelProposal
from rl.models.queues import AnswerPair, Claim, GoldItem, Invite, RatingQueue
from rl.models.serving import Deployment
from rl.models.traces import QuestionStart, RunPart, Trace, UserTurns, prompt_key
from rl.models.training import Episode, MetricPoint, TrainingRun, TrainingSet, TrainingSetTrace, run_ended
from rl.models.tuning import TuningJob, Upload, UploadedFile, UploadPart
from rl.models.versions import BASE, Artifact, Evaluation, ModelVersion, version_name
