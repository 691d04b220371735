"""A pickle as plain data, whatever it says: nothing is imported, nothing of it is called, and its cost is bounded."""

from __future__ import annotations

from typing import Any

from rl.base.errors import BadFile
from rl.from_systems.toolbox.checkpoints.limits import Limits, Refused
from rl.from_systems.toolbox.checkpoints.machine import Machine
from rl.from_systems.toolbox.checkpoints.opcodes import Operations
from rl.from_systems.toolbox.checkpoints.plain import Plain


def read_pickle(data: bytes, name: object = "pickle", limits: Limits | None = None) -> Any:
    """What ``rl.from_systems.toolbox.checkpoints.plain`` describes. Raises only BadFile, with the byte and the opcode."""
    limits = limits or Limits()
    operations = Operations(data)
    try:
        if len(data) > limits.file_bytes:
            raise Refused(f"the file has more than {limits.file_bytes:,} bytes")
        return Plain(limits).value(Machine(limits).run(operations))
    except Refused as refused:
        what = str(refused)
    except MemoryError:
        what = "needs more memory than it may have"
    raise BadFile(name, f"is not a checkpoint that can be read: {what}", f"byte {operations.offset}, {operations.name}")
