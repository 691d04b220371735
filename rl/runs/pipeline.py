"""Training in one call: ``RLTrainer`` from rows to an adapter, ``TrainingPipeline`` from feedback to a model in use."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rl import dataset_builder
from rl.base.errors import NotEnoughData
from rl.base.records import Report, Scorer, TrainingResult, silent
from rl.config import METHODS, TrainingConfig, config_class, find_method
from rl.config.authority import Owner
from rl.config.training_job import TrainingJob
from rl.dataset_builder.plan.advice import Advice
from rl.models import Agent, Deployment, Evaluation, ModelVersion, TrainingRun
from rl.runs import choosing, supervisor
from rl.runs import run as runs
from rl.runs.dry_run import Plan, dry_run
from rl.runs.ladder import train_within_memory
from rl.scoring import stored as rewarding
from rl.training import method


class RLTrainer:
    """One method on rows that you have, without agent, versions or gate.

    ``base_model``: a hub id or directory. ``output_dir``: gets ``adapter/`` and checkpoints. Raises UsageError for an
    unknown method, or a configuration of another one.
    """

    def __init__(
        self,
        method_name: str,
        base_model: str,
        output_dir: Path | str,
        config: TrainingConfig | None = None,
        *,
        scorer: Scorer | None = None,
    ) -> None:
        find_method(method_name)
        self.method = method_name
        self.base_model = base_model
        self.output_dir = Path(output_dir)
        self.config = config_class(method_name)().with_overrides(config.as_dict() if config else {})
        self.scorer = scorer

    def train(self, rows: Path | str, *, resume: bool = False, report: Report = silent) -> TrainingResult:
        """``rows``: JSON lines of the method. Raises what the method raises."""
        job = TrainingJob(
            train_rows=Path(rows),
            base_model=self.base_model,
            config=self.config,
            output_dir=self.output_dir,
            resume=resume,
            scorer=self.scorer,
        )
        return train_within_memory(method(self.method).train, job, report, find_method(self.method).least_rows)


@dataclass(frozen=True, slots=True)
class PipelineResult:
    run: TrainingRun
    version: ModelVersion
    evaluation: Evaluation
    artifacts: dict[str, str]
    """Kind to path of what was exported; empty unless the gate promoted the version."""
    deployment: Deployment | None
    """The champion, where that is this version."""


class TrainingPipeline:
    """An agent's data, training, evaluation, export and deployment.

    ``method``: one of METHODS, or empty for the one that the training plan advises. ``base_model``: empty for the agent's.
    Raises UsageError for an unknown agent or method.
    """

    def __init__(self, agent_name: Agent | str, base_model: str = "", method: str = "") -> None:
        self.agent = agent_name if isinstance(agent_name, Agent) else Agent.by_name(agent_name)
        self.base_model = base_model
        if method:
            find_method(method)
        self.method = method

    def run_full_pipeline(
        self,
        *,
        deploy_ollama: bool = False,
        model_name: str = "",
        quantization: str = "q8_0",
        overrides: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        report: Report = silent,
    ) -> PipelineResult:
        """``overrides``: hyper-parameters; ``data``: of DataOptions. What the gate does not promote is neither exported nor
        deployed. Raises NotEnoughData before anything is trained, RunConflict, and what a run raises."""
        name = self.choose(report)
        config, options = self.settings(name, overrides, data)
        options = replace(
            options,
            export=True,
            quantization=quantization,
            model_name=model_name,
            deploy="ollama" if deploy_ollama else "",
        )
        run = runs.create(self.agent, method_name=name, config=config, options=options, by=Owner.OPERATOR)
        run = supervisor.claim_stopped(run)
        evaluation, version = runs.execute(run, report), run.version
        assert version is not None  # noqa: S101  a run that ends well has made one
        champion = Deployment.objects.filter(version=version, alias=Deployment.Alias.CHAMPION).first()
        artifacts = {artifact.kind: artifact.path for artifact in version.artifacts.all()}
        return PipelineResult(run, version, evaluation, artifacts, champion)

    def plan(
        self,
        overrides: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        *,
        measures: bool = False,
        report: Report = silent,
    ) -> Plan:
        """What would be trained, by the rewards that are known now; ``measures``: as in ``dry_run``.

        Raises NotEnoughData and UsageError.
        """
        name = self.method or self.advise().method
        config, options = self.settings(name, overrides, data)
        return dry_run(self.agent, config, replace(options, export=True), name, measures=measures, report=report)

    def choose(self, report: Report = silent) -> str:
        """The method; first computes the rewards that wait, which the advice and some methods need. Raises NotEnoughData."""
        if not self.method or find_method(self.method).rows.has_rewards:
            rewarding.calculate(self.agent, report=report)
        if self.method:
            return self.method
        advice = self.advise()
        report("log", {"text": f"training with {advice.method}: {advice.reason}"})
        return advice.method

    def advise(self) -> Advice:
        """Raises NotEnoughData."""
        advice = dataset_builder.training_plan(self.agent).advice
        if advice.method not in METHODS:
            raise NotEnoughData(f"{self.agent.name}: {advice.reason}")
        return advice

    def settings(
        self, method_name: str, overrides: Mapping[str, Any] | None, data: Mapping[str, Any] | None
    ) -> tuple[TrainingConfig, runs.RunOptions]:
        """The operator's: any hyper-parameter."""
        chosen = choosing.choose(self.agent, method_name, self.advised_settings(method_name))
        return chosen.config.with_overrides(overrides or {}), self.options(data, chosen)

    def chosen_settings(
        self, method_name: str, overrides: Mapping[str, Any], base_model: str, data: Mapping[str, Any]
    ) -> tuple[TrainingConfig, runs.RunOptions]:
        """A trainer's; ``base_model``: a registered name. Raises UsageError for what only the operator may set."""
        overrides = {**self.advised_settings(method_name), **overrides}
        chosen = choosing.choose(self.agent, method_name, overrides, base_model=base_model)
        return chosen.config, self.options(data, chosen)

    def advised_settings(self, method_name: str) -> dict[str, Any]:
        """An advice rests on what is stored: GRPO takes the answers that are, with their rewards."""
        chooses = find_method(method_name).generates == "online"
        return {"rollouts": "offline"} if chooses and not self.method else {}

    def options(self, data: Mapping[str, Any] | None, chosen: choosing.ChosenConfig) -> runs.RunOptions:
        rows = dataset_builder.DataOptions(**{"pair_type": self.agent.pair_type, **(data or {})})
        return chosen.apply_to(runs.RunOptions(data=rows, base_model=self.base_model))
