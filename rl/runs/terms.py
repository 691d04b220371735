"""What a run stands on, found out once, from its row and this machine, before any of its work begins."""

from dataclasses import dataclass

from django.conf import settings

from rl.base.records import Scorer
from rl.config import TrainingConfig, find_method
from rl.config.methods import Method, RowKind
from rl.hardware import HardwareConfig, detect_hardware
from rl.models import TrainingRun
from rl.runs.choosing import RunOptions, require_origins
from rl.scoring import rollouts


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTerms:
    method: Method
    config: TrainingConfig
    """As it is stored: what is left to choose is chosen when the rows are known."""
    options: RunOptions
    base_model: str
    """As it is named: it may have to be fetched or unpacked yet."""
    hardware: HardwareConfig
    scorer: Scorer | None
    """The agent's rewards or a grader, where these judge the answers that the run generates."""

    @property
    def rows(self) -> RowKind:
        return self.method.rows_with(self.config)

    @property
    def device(self) -> str:
        return "gpu" if self.hardware.gpus else "cpu"


def read_terms(run: TrainingRun) -> RunTerms:
    """Raises UsageError for a method or a setting that there is not, or a value that nobody is known to have set who may."""
    require_origins(run)
    options, method = RunOptions.from_dict(run.options), find_method(run.method)
    config = method.config(**run.config)
    by_rewards = method.generates_with(config) and not options.reward_model
    return RunTerms(
        method=method,
        config=config,
        options=options,
        base_model=options.base_model_of(run.agent),
        hardware=detect_hardware(settings.DATA_DIR),
        scorer=rollouts.scorer_of_run(run.agent, run.options) if by_rewards else None,
    )
