"""What its files of tasks mean beside what ours do.

``reference_solution`` is a text that marks success, ``ground_truth`` the program, and the program of a tool's call is what
the tests judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from rl.base.errors import RatchetError
from rl.environments.code_exec import solution_of
from rl.environments.tasks import CodeTaskDataset

FIRST = 50
"""Tasks that are looked at."""


def are_miniagents(folder: Path, split: str) -> bool:
    """Whether one of the first tasks has a text that marks success instead of a program. False for what cannot be read."""
    try:
        tasks = CodeTaskDataset.from_directory(folder, split)
    except RatchetError:  # which is told by those who read the tasks
        return False
    return any(_has_marker(task.as_mapping()) for task in islice(tasks, FIRST))


def _has_marker(task: Mapping[str, Any]) -> bool:
    reference = str(task.get("reference_solution") or "")
    return bool(reference.strip()) and solution_of(task) != reference
