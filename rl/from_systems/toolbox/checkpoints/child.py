"""One checkpoint in a process of its own: the pickle on standard input, JSON lines on standard output.

The first line describes the checkpoint, one line follows for each conversation, and the last one is ``{"end": true}``, or
``{"refused": what, "where": location}``. The limits of the process are a second line of defence: the reader keeps its own.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from rl.base.errors import BadFile
from rl.from_systems.toolbox.checkpoints.extraction import extract
from rl.from_systems.toolbox.checkpoints.limits import Limits, Refused
from rl.from_systems.toolbox.checkpoints.reading import read_pickle

MEMORY, CPU_SECONDS, MOST_OUTPUT = 2**30, 20, 256 * 2**20
"""Bytes, seconds, bytes."""
_LIMITS = {
    resource.RLIMIT_AS: MEMORY,
    resource.RLIMIT_CPU: CPU_SECONDS,
    resource.RLIMIT_FSIZE: MOST_OUTPUT + 2**20,
    resource.RLIMIT_CORE: 0,
}


def main() -> None:
    for limit, value in _LIMITS.items():
        with suppress(ValueError, OSError):  # a stricter limit is in force, or this system has no such one
            resource.setrlimit(limit, (value, value))
    gc.disable()  # it would look again and again at millions of live objects
    for line in lines(sys.stdin.buffer.read(Limits().file_bytes + 1)):
        sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def lines(data: bytes) -> Iterator[bytes]:
    try:
        about, conversations = extract(read_pickle(data))
        yield _line(about)
        written = 0
        for conversation in conversations:
            line = _line(conversation)
            written += len(line)
            if written > MOST_OUTPUT:
                raise Refused(f"its conversations take more than {MOST_OUTPUT // 2**20} MB")
            yield line
        yield _line({"end": True})
    except BadFile as error:
        yield _line({"refused": error.problem, "where": error.location})
    except Refused as error:
        yield _line({"refused": str(error), "where": ""})
    except MemoryError:
        yield _line({"refused": f"needs more than {MEMORY // 2**30} GB of memory", "where": ""})


def _line(value: dict[str, Any]) -> bytes:
    """Half surrogate pairs stay, for whoever stores the text to refuse by name."""
    return json.dumps(value).encode() + b"\n"
