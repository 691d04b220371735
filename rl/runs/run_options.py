"""What a run is told beside its hyper-parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from rl import dataset_builder
from rl.runs.processes.launch import Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Where a run's data comes from, and what happens after training."""

    data: dataset_builder.DataOptions
    source: str = "db"
    """db, or file: a Command Center export that is not imported."""
    data_file: str = ""
    ratings_file: str = ""
    base_model: str = ""
    """Base model to use instead of the agent's."""
    output_dir: str = ""
    """A copy of the adapter, or of the model, goes here too."""
    export: bool = False
    """GGUF, if the gate promotes the version."""
    quantization: str = "q8_0"
    model_name: str = ""
    deploy: str = ""
    """The target that serves the version, if the gate promotes it: ollama or llama_cpp."""
    rewards: str = ""
    """Names, with commas between: what rewards answers that are generated while training. Empty: all of the agent's."""
    reward_model: str = ""
    """Directory or version of a reward model that rewards generated answers instead of ``rewards``."""
    report_to: str = ""
    """Experiment trackers, with commas between."""
    dataset_dir: str = ""
    """Folder of a data set of tasks, for agents with tools; empty: the tasks of the demo."""
    train_split: str = "train"
    eval_split: str = "eval"
    """Name of the split whose tasks are held out for evaluation; empty: none."""
    sweep: bool = False
    """Three learning rates are tried before the training."""
    num_processes: int = 1
    accelerate_config: str = ""
    name_by_feedback: bool = False
    """The number in the version's name is that of the feedback items it learned from, as N3 has it."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Who set what only the operator may set: field of these or of the hyper-parameters to ``operator``, ``agent``, or the
    registered name that it was chosen by."""

    @property
    def launch(self) -> Launch:
        """Raises UsageError."""
        return Launch(self.num_processes, self.accelerate_config)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RunOptions:
        known = {field.name for field in fields(cls)}
        rest = {name: value for name, value in values.items() if name in known and name != "data"}
        return cls(data=dataset_builder.DataOptions(**values["data"]), **rest)
