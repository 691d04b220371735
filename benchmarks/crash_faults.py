"""What is done to the site, and when: all of it drawn from the seed, so that a second run gets the same."""

import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import psutil
from crash_services import Services, processes_of
from crash_site import Site, empty, fill

GAP_SECONDS = (4.0, 14.0)
FULL_SECONDS = (2.0, 12.0)
SHORT_SECONDS = 60.0
"""Below, one of each kind, in the same order."""
QUIET_SECONDS = 4.0
"""At the end, so that the last restart meets load too."""
WEIGHTS = {"web worker": 4, "queue worker": 3, "model server": 2, "queue": 3, "web master": 3}
"""How often each is drawn, beside the ones that only some sites have."""
LLAMA_SECONDS = (60.0, 170.0, 920.0, 1670.0)
"""A server that dies three times within ten minutes is given up, so that it must not be killed more often."""


@dataclass(frozen=True)
class Fault:
    at: float
    """Seconds from the start of the load."""
    kind: str
    chosen: float
    """0 to 1: which of several processes, or how long the disk is full."""


def plan(seed: int, seconds: float, *, disk: bool, trains: bool, postgres: bool) -> list[Fault]:
    draw = random.Random(seed)
    weights = {
        **WEIGHTS,
        **({"full disk": 2} if disk else {}),
        **({"training": 2} if trains else {}),
        **({"postgres": 2} if postgres else {}),
    }
    if seconds < SHORT_SECONDS:
        kinds = [*(["full disk"] if disk else []), *WEIGHTS, *(["postgres"] if postgres else [])]
        apart = (seconds - QUIET_SECONDS) / len(kinds)
        return [Fault(1 + number * apart + draw.random() / 2, kind, draw.random()) for number, kind in enumerate(kinds)]
    faults, at = [], draw.uniform(*GAP_SECONDS)
    while at < seconds - QUIET_SECONDS:
        kind = draw.choices(list(weights), list(weights.values()))[0]
        faults.append(Fault(at, kind, draw.random()))
        at += draw.uniform(*GAP_SECONDS)
    if trains:
        faults += [Fault(at, "llama.cpp server", 0) for at in LLAMA_SECONDS if at < seconds - QUIET_SECONDS]
    return sorted(faults, key=lambda fault: fault.at)


@dataclass
class Faults:
    site: Site
    services: Services
    done: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    """No such process ran at that moment."""

    def work(self, faults: list[Fault], report: Callable[[str], None]) -> None:
        started = time.monotonic()
        for fault in faults:
            time.sleep(max(0.0, started + fault.at - time.monotonic()))
            happened = self._fill(fault) if fault.kind == "full disk" else self._kill(fault)
            (self.done if happened else self.missed)[fault.kind] += 1
            report(f"{fault.at:7.1f} s  {fault.kind}{'' if happened else ': none was there'}")

    def _fill(self, fault: Fault) -> bool:
        fill(self.site.folder)
        shortest, longest = FULL_SECONDS
        time.sleep(shortest + fault.chosen * (longest - shortest))
        empty(self.site.folder)
        return True

    def _kill(self, fault: Fault) -> bool:
        targets = sorted(self._targets(fault.kind), key=lambda process: process.pid)
        if not targets:
            return False
        with suppress(psutil.NoSuchProcess):
            targets[int(fault.chosen * len(targets))].kill()
            return True
        return False

    def _targets(self, kind: str) -> list[psutil.Process]:
        match kind:
            case "web master" | "queue" | "model server" | "postgres":
                name = {"web master": "web", "model server": "models"}.get(kind, kind)
                process = self.services[name].process
                return [psutil.Process(process.pid)] if process and process.poll() is None else []
            case "web worker" | "queue worker":
                return _workers(self.services["web" if kind == "web worker" else "queue"].process)
            case "training":
                return [process for process in processes_of(self.site) if "--attempt" in _command(process)]
            case _:
                return [
                    process
                    for process in processes_of(self.site)
                    if str(self.site.data / "servers") in _command(process)
                ]


def _workers(master: object) -> list[psutil.Process]:
    """Without Python's resource tracker, and without the trainings that the queue has started."""
    with suppress(psutil.NoSuchProcess, AttributeError):
        children = psutil.Process(master.pid).children(recursive=True)  # type: ignore[attr-defined]
        return [
            child
            for child in children
            if not {"resource_tracker", "--attempt"} & set(" ".join(_command(child)).split())
            and not any("resource_tracker" in word for word in _command(child))
        ]
    return []


def _command(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return process.cmdline()
    return []
