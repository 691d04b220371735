"""What it costs to get ready: a process each, that imports what trains or measures, or is a command that does little."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.speed_contest import Way, compete

ROOT: Final = Path(__file__).resolve().parents[1]
_SET_UP: Final = "from benchmarks.installation import set_up; set_up(); "
_LEAF: Final = _SET_UP + "from rl.base.leaves import leaf; leaf('{}')"
_DEMO: Final = _SET_UP + "from rl.demo.load import load_demo; print(load_demo('tiny').name)"
BARE: Final = {
    "TRL and what it trains with": ("-c", "from trl import DPOTrainer; import peft, datasets"),
    "PyTorch": ("-c", "import torch"),
}
PROGRAMS: Final = {
    "Django with this project": ("-c", _SET_UP),
    "train_dpo --help": ("manage.py", "train_dpo", "--help"),
    "train_dpo --dry-run": ("manage.py", "train_dpo", "--agent", "support-chat", "--dry-run"),
    "what evaluation imports": ("-c", _LEAF.format("rl.evaluation.torch.scoring")),
    "ours": ("-c", _LEAF.format("rl.training.dpo")),
}


def run(base: Path, folder: Path, rounds: int, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """The "loss" is the exit code. One round, which no time is of, is of our own programs only."""
    environment = {**os.environ, "DEBUG": "1", "SECRET_KEY": "x" * 60, "DATA_DIR": str(folder)}
    _prepare(environment)
    programs = PROGRAMS if rounds == 1 else {**BARE, **PROGRAMS}
    ways = [Way(name, _starting(arguments, environment)) for name, arguments in programs.items()]
    return compete(ways, rounds, tell)


def _prepare(environment: Mapping[str, str]) -> None:
    """A demo for the dry run, which times the machine the first time."""
    for arguments in (("manage.py", "migrate", "-v", "0"), ("-c", _DEMO), PROGRAMS["train_dpo --dry-run"]):
        _start(arguments, environment)


def _starting(arguments: Sequence[str], environment: Mapping[str, str]) -> Callable[[int], float]:
    return lambda number: _start(arguments, environment)


def _start(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL).returncode
