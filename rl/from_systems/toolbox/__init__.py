"""ToolBoxV2: traces and checkpoints of its agents, and the Python names that its users call, over what Ratchet has.

Names are imported when they are asked for: recording needs the standard library alone.

Imports: base, collect, config, data_formatter, dataset_builder, hardware, rewards."""

from functools import partial
from pathlib import Path
from typing import Final

from rl.base.leaves import lazy_name

TRACES, CHECKPOINTS, TRAINING = "rl_traces", Path("Agents/checkpoint"), "rl_training"
"""Where ToolBoxV2 keeps its files, below its data folder."""
_MODULES: Final = {
    "records": ("ExecutionTrace", "ReasoningStep", "ToolCallTrace", "TraceCollector", "hook_into_agent"),
    "reward_engine": (
        *("BaseReward", "CodeExecutionReward", "EfficiencyReward", "FormatComplianceReward", "LearnedReward"),
        *("RewardEngine", "RewardResult", "SyntaxValidationReward", "TaskCompletionReward", "ToolSuccessReward"),
    ),
    "datasets": ("GRPODatasetBuilder", "GRPOExample", "KTODatasetBuilder", "KTOExample"),
    "dataset_pipeline": ("CheckpointLoader", "DatasetPipeline"),
    "training_config": (
        *("HardwareConfig", "HardwareProfile", "TrainingConfig", "detect_hardware", "get_ryzen_optimized_config"),
    ),
    "trainer": ("RLTrainer",),
    "training_pipeline": ("ExportPipeline", "TrainingPipeline", "quick_export"),
    "training_manager": ("RLTrainingManager", "TrainingSession", "TrainingState"),
    "agent_tools": (
        *("check_training_status", "get_rl_training_tools", "list_rl_models", "register_rl_tools"),
        *("start_rl_training", "stop_rl_training", "switch_rl_model"),
    ),
    "ollama": (
        "GGUFExporter",
        "GGUFQuantization",
        "OllamaDeployer",
        "OllamaHostingProfile",
        "get_recommended_quantization",
    ),
}
NAMES: Final = {name: f"{__name__}.{module}.{name}" for module, names in _MODULES.items() for name in names}
"""Name to dotted path."""
__getattr__ = partial(lazy_name, __name__, paths=NAMES)


def data_folder() -> Path:
    """Unless somebody says otherwise."""
    return Path.home() / ".toolbox"
