"""Reads the checkpoints of ToolBoxV2's agents. They are pickles, which are programs, and are never executed.

Imports: base.
"""

from __future__ import annotations

from rl.collect.toolbox_checkpoints.limits import Limits
from rl.collect.toolbox_checkpoints.loader import CheckpointLoader, read_checkpoint
from rl.collect.toolbox_checkpoints.reading import read_pickle

__all__ = ["CheckpointLoader", "Limits", "read_checkpoint", "read_pickle"]
