"""Reads the checkpoints of ToolBoxV2's agents. They are pickles, which are programs, and are never executed.

Imports: base.
"""

from __future__ import annotations

from rl.collect.checkpoints.limits import Limits
from rl.collect.checkpoints.loader import CheckpointLoader, read_checkpoint
from rl.collect.checkpoints.reading import read_pickle

__all__ = ["CheckpointLoader", "Limits", "read_checkpoint", "read_pickle"]
