"""What is measured: a version or the folder of a checkpoint, with which it is compared, and under which terms."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rl.base.manner import Manner
from rl.base.records import Report, silent
from rl.collect.feedback.kept_answers import choosing_for, schema_for
from rl.data_formatter.answer_kinds import FREE, AnswerKind
from rl.evaluation import Contest, lm_eval
from rl.evaluation.duels import Given
from rl.evaluation.gate import Verdict
from rl.evaluation.guards import measure as guarding
from rl.evaluation.guards.measure import GuardWatch, Row
from rl.evaluation.lm_eval import TaskScores
from rl.evaluation.stats.budget import ONCE, Look, at_look
from rl.lm import base_models
from rl.lm.model_path import base_of, is_reward_model
from rl.models import Agent, Deployment, Evaluation, ModelVersion, TrainingRun
from rl.scoring import rollouts
from rl.versions import versions


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """What a person may ask of an evaluation."""

    against_base: bool = False
    """Compares with the base model, whatever is in use."""
    task: Path | None = None
    """A file of lm-eval, for both versions besides."""
    judge: str | None = None
    """Who compares fresh answers; None for the agent's."""


DEFAULT = EvaluationOptions()


@dataclass(frozen=True, slots=True)
class Subject:
    """What is measured."""

    agent: Agent
    base_model: str
    weights: Path | None
    """An adapter, or a whole model; None: those of the base model, which is told something."""
    current: ModelVersion | None
    max_length: int
    version: ModelVersion | None = None
    """None for the folder of a checkpoint."""
    task: TaskScores | None = None
    judge: str = ""
    """Name of the judge of fresh answers; empty for the agent's own."""

    @property
    def run(self) -> TrainingRun | None:
        return getattr(self.version, "run", None)

    @property
    def is_reward_model(self) -> bool:
        """It scores answers, and gives none."""
        return self.weights is not None and is_reward_model(self.weights)

    @property
    def contest(self) -> Contest:
        manner = self.version.manner if self.version else Manner(self.agent.thinks)
        size = self.max_length, self.answer_length
        return Contest(self.base_model, self.weights, self._in_use(manner), *size, manner)

    def _in_use(self, manner: Manner) -> tuple[str, Path | None, Manner] | None:
        """``manner``: of the new version; where it is told something, the base model in use is not what that makes of it."""
        if current := self.current:
            return _base_of(current), versions.find_weights(current), current.manner
        return (self.base_model, None, Manner(self.agent.thinks)) if manner.instruction else None

    @property
    def answer_length(self) -> int:
        return int((self.run.config if self.run else {}).get("max_new_tokens", self.agent.response_length))

    @property
    def look(self) -> Look:
        """Which look at a version it is since the one in use was promoted. What is not a version cannot be promoted."""
        return look_at(self.version, self.current) if self.version else ONCE

    def watch(self, rows: Sequence[Row], report: Report, kind: AnswerKind = FREE) -> GuardWatch:
        scorer = partial(rollouts.scorer_of_run, self.agent, self.run.options if self.run else {})
        return guarding.watch(
            self.agent,
            rows,
            scorer,
            max_length=self.max_length,
            most_tokens=min(self.answer_length, self.max_length // 2),
            report=report,
            task=self.task,
            kind=kind,
            choosing=choosing_for(self.agent, rows) if kind.kind == "closed" else None,
            schema=schema_for(self.agent) if kind.kind == "structured" else None,
        )


def look_at(version: ModelVersion, current: ModelVersion | None) -> Look:
    against = Evaluation.objects.filter(version__agent=version.agent_id, against=current, artifact=None)
    return at_look(1 + against.exclude(version=version).order_by().values("version").distinct().count())


@dataclass(frozen=True, slots=True)
class Measured:
    fields: dict[str, Any]
    """The fields of an Evaluation without its report."""
    report: dict[str, Any]
    """What the report page and ``--output`` show."""
    given: Sequence[Given] = ()
    """Answers that people may compare."""


def evaluation_fields(verdict: Verdict, pairs: int, prompts: int, means: Sequence[float]) -> dict[str, Any]:
    """``means``: accuracies or mean rewards of the new version, the base model and the version in use."""
    names = ("accuracy", "base_accuracy", "against_accuracy")
    return {"pairs": pairs, "prompts": prompts, **dict(zip(names, means, strict=True)), "verdict": verdict.decision}


def _base_of(version: ModelVersion) -> str:
    """Its base model, found by the name that a version has which was not trained."""
    return base_models.resolve(version.base_model, silent) if version.is_worded else version.base_model


def of_version(version: ModelVersion, options: EvaluationOptions, report: Report) -> Subject:
    """Compared with the version in use, or with its parent when it is in use itself."""
    current = None
    if not options.against_base and not version.is_reward_model:
        champion = Deployment.champion(version.agent)
        current = version.parent if champion == version else champion
    max_length = version.agent.context_length if version.is_worded else version.trained.run.config["max_length"]
    subject = Subject(version.agent, _base_of(version), versions.find_weights(version), current, max_length, version)
    return _with(options, report, subject)


def of_checkpoint(agent: Agent, weights: Path, options: EvaluationOptions, report: Report) -> Subject:
    current = None if options.against_base else Deployment.champion(agent)
    return _with(options, report, Subject(agent, base_of(weights), weights, current, agent.context_length))


def _with(options: EvaluationOptions, report: Report, subject: Subject) -> Subject:
    """Measured on a task of lm-eval, if one is named."""
    task = lm_eval.measure(subject.contest, options.task, report) if options.task else None
    return replace(subject, task=task, judge=subject.agent.judge if options.judge is None else options.judge)
