"""Reads hostile, cut and damaged pickles in a process whose every audited action is written down, and prints what happened.

Started as ``python -I -S watched.py ROOT SAMPLES``; audit hooks cannot be removed, so this is a process of its own.
SAMPLES is JSON: name to hexadecimal pickle; the one named ``small`` is cut at each of its bytes.
"""

import json
import pickle
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from typing import Any

sys.path.insert(0, sys.argv[1])

from rl.base.errors import BadFile
from rl.from_systems.toolbox.checkpoints.opcodes import PickleLimits
from rl.from_systems.toolbox.checkpoints.reading import (
    lines,
    read_pickle,
)
from tests.from_systems.toolbox.checkpoints.hostile import Case, cases

SEED, MUTATIONS = 20260105, 4000
ACTORS = ("ctypes", "pty", "shutil", "socket", "subprocess", "timeit", "urllib.request")
events: list[str] = []
watching = stopping = False


class Stopped(BaseException):
    """The control's pickles want to act; they come to here and no further."""


def hook(event: str, arguments: tuple[Any, ...]) -> None:
    global watching
    if watching and event != "builtins.id":
        watching = False  # what is done here is no deed of the pickle
        events.append(event)
        watching = True
        if stopping and event not in ("pickle.find_class", "import", "object.__getattr__"):
            raise Stopped(event)


def outcome(data: bytes, limits: dict[str, int] | None = None) -> str:
    """Of reading it alone."""
    global watching
    watching = True
    try:
        read_pickle(data, "hostile", PickleLimits(**(limits or {})))
        found = "data"
    except BadFile as error:
        found = "refused" if "byte " in error.location else f"refused without its place: {error}"
    except BaseException as error:
        found = f"{type(error).__name__}: {error}"
    finally:
        watching = False
    return found


def looked_through(data: bytes) -> str:
    """As the process that reads a checkpoint does it, conversations and all."""
    global watching
    watching = True
    try:
        last = json.loads([*lines(data)][-1])
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    finally:
        watching = False
    return "refused" if last.get("where") else "data"


def report(case: Case) -> dict[str, Any]:
    events.clear()
    modules, began = set(sys.modules), time.process_time()
    found = outcome(case.data, case.limits)
    told = looked_through(case.data) if not case.limits else found
    return {
        "outcome": found,
        "told": told,
        "events": sorted(set(events)),
        "imported": sorted(set(sys.modules) - modules),
        "seconds": time.process_time() - began,
    }


def control(case: Case) -> list[str]:
    """What the standard unpickler would have done."""
    global watching, stopping
    for module in ACTORS:
        import_module(module)  # or the first audited action would be that its file is opened
    events.clear()
    watching = stopping = True
    try:
        pickle.loads(case.data)
    except BaseException:
        pass
    finally:
        watching = stopping = False
    return sorted(set(events) - {"pickle.find_class", "import"})


def mutated(samples: list[bytes], chance: random.Random) -> Iterator[bytes]:
    opcodes = b"IJKMLFGSTUVXCBN]ael)t}dsu02(1ghjpqrcRbio.PQ" + bytes(range(0x80, 0x99))
    for _ in range(MUTATIONS):
        data = bytearray(chance.choice(samples))
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(data))
            match chance.randrange(6):
                case 0:
                    data[at] = chance.randrange(256)
                case 1:
                    data[at] = chance.choice(opcodes)
                case 2:
                    data.insert(at, chance.choice(opcodes))
                case 3:
                    del data[at : at + chance.randint(1, 8)]
                case 4:
                    data[at:at] = data[at : at + chance.randint(1, 40)]
                case 5:
                    other = chance.choice(samples)
                    start = chance.randrange(len(other))
                    data[at:at] = other[start : start + chance.randint(1, 40)]
            data = data or bytearray(b".")
        yield bytes(data)


def many(inputs: Iterator[bytes]) -> dict[str, Any]:
    """Counts of outcomes, and all that was done."""
    events.clear()
    modules = set(sys.modules)
    counts: Counter[str] = Counter()
    for data in inputs:
        counts[looked_through(data)] += 1
    return {"counts": counts, "events": sorted(set(events)), "imported": sorted(set(sys.modules) - modules)}


def main() -> None:
    samples = {name: bytes.fromhex(data) for name, data in json.loads(sys.argv[2]).items()}
    small = samples.pop("small")
    for data in samples.values():  # what the standard library loads by itself is loaded now
        looked_through(data)
    sys.addaudithook(hook)
    everything = cases()
    found = {
        "cases": {f"{case.group}: {case.name}": report(case) for case in everything},
        "cut": many(small[:end] for end in range(len(small))),
        "mutated": many(mutated(list(samples.values()), random.Random(SEED))),
        "control": {f"{case.group}: {case.name}": control(case) for case in everything if case.control},
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
