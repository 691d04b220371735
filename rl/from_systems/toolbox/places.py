"""Where ToolBoxV2 keeps its files: below its data folder, ``~/.toolbox`` unless somebody says otherwise."""

from __future__ import annotations

from pathlib import Path

TRACES, CHECKPOINTS, TRAINING = "rl_traces", Path("Agents/checkpoint"), "rl_training"


def data_folder() -> Path:
    return Path.home() / ".toolbox"


def data_folder_of(storage_path: Path | str | None) -> Path:
    """``storage_path``: the folder of trace files, which lies in the data folder; None: the usual one."""
    return data_folder() if storage_path is None else Path(storage_path).absolute().parent
