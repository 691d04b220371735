"""Reads the checkpoints of ToolBoxV2's agents. They are pickles, which are programs, and are never executed.

Imports: base, collect.
"""

from __future__ import annotations

from rl.from_systems.toolbox.checkpoints.agents_folder import AgentsFolder, read_checkpoint
from rl.from_systems.toolbox.checkpoints.opcodes import Limits
from rl.from_systems.toolbox.checkpoints.reading import read_pickle

__all__ = ["AgentsFolder", "Limits", "read_checkpoint", "read_pickle"]
