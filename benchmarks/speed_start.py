"""What it costs to get ready: a process each, that imports what trains or measures, or is a command that does little."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.speed_contest import Way, compete
from benchmarks.speed_database import copy_empty

ROOT: Final = Path(__file__).resolve().parents[1]
_SET_UP: Final = "from benchmarks.installation import set_up; set_up(); "
_LEAF: Final = "from rl.base.leaves import leaf; leaf('{}'); "
_SCORING, _TRAINING = _LEAF.format("rl.evaluation.torch.scoring"), _LEAF.format("rl.training.dpo")
_DEMO: Final = _SET_UP + "from rl.demo.load import load_demo; print(load_demo('tiny').name)"
BARE: Final = {
    "TRL and what it trains with": ("-c", "from trl import DPOTrainer; import peft, datasets"),
    "PyTorch": ("-c", "import torch"),
}
PROGRAMS: Final = {
    "Django with this project": ("-c", _SET_UP),
    "train_dpo --help": ("manage.py", "train_dpo", "--help"),
    "train_dpo --dry-run": ("manage.py", "train_dpo", "--agent", "support-chat", "--dry-run"),
    "what evaluation imports": ("-c", _SET_UP + _SCORING),
    "ours": ("-c", _SET_UP + _TRAINING),
}
ONCE: Final = {
    "train_dpo --dry-run": PROGRAMS["train_dpo --dry-run"],
    "ours": ("-c", _SET_UP + _SCORING + _TRAINING),
}
"""All that ``PROGRAMS`` do, for one round, which no time is of: each thing once, and not what others of them do anyway."""


def run(base: Path, folder: Path, rounds: int, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """The "loss" is the exit code."""
    environment = {**os.environ, "DEBUG": "1", "SECRET_KEY": "x" * 60, "DATA_DIR": str(folder)}
    environment["DATABASE_URL"] = f"sqlite:///{copy_empty(folder)}"
    programs = ONCE if rounds == 1 else {**BARE, **PROGRAMS}
    _start(("-c", _DEMO), environment)
    if rounds > 1:
        _start(PROGRAMS["train_dpo --dry-run"], environment)  # times the machine the first time
    ways = [Way(name, _starting(arguments, environment)) for name, arguments in programs.items()]
    return compete(ways, rounds, tell)


def _starting(arguments: Sequence[str], environment: Mapping[str, str]) -> Callable[[int], float]:
    return lambda number: _start(arguments, environment)


def _start(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL).returncode
