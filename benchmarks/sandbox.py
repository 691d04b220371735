"""What a run in the sandbox costs beside plain ``python -I -S``, which protects from nothing.

.venv/bin/python benchmarks/sandbox.py [--runs 200] [--workers 2] [--program FILE]

All take turns, so that a busy machine is busy for all of them. Processor time is that of this process and of all below
it: the caller's side, the box and the program. Fails when the first backend takes more of it than the plain interpreter.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rl.sandbox import available, kernel, run
from rl.sandbox.programs import interpreter

PROGRAM = "print(sum(number * number for number in range(1000)))"
SHELL = "n=0; i=0; while [ $i -lt 1000 ]; do n=$((n + i * i)); i=$((i + 1)); done; echo $n"
PLAIN = "python -I -S"
ROUNDS = 5


@dataclass
class Cost:
    processor: list[float] = field(default_factory=list)
    """Seconds a run, one figure a round."""
    rate: list[float] = field(default_factory=list)
    """Runs per second, one figure a round."""
    waits: list[float] = field(default_factory=list)
    """Seconds of each run."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="of each, in each of the 5 rounds")
    parser.add_argument("--workers", type=int, default=2, help="threads that run programs at the same time")
    parser.add_argument("--program", type=Path, help="a Python program to run instead of a short sum")
    options = parser.parse_args()
    code = options.program.read_text(encoding="utf-8") if options.program else PROGRAM
    ways = _ways(code)
    costs = {name: Cost() for name in ways}
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    for once in ways.values():
        once()  # the first run of a backend tests it
    for _ in range(ROUNDS):
        for name, once in ways.items():
            _round(once, costs[name], options.runs, options.workers)
    _report(costs)
    first = next((name for name in costs if name != PLAIN), None)
    return 0 if first and _middle(costs[first]) <= _middle(costs[PLAIN]) else 1


def _ways(code: str) -> dict[str, Callable[[], None]]:
    ways = {PLAIN: lambda: _run_plain(code)}
    for name, complaint in available().items():
        if complaint:
            print(f"{name} is left out: {complaint}")
        else:
            ways[name] = partial(_run_in_box, code, "python", name)
            ways[f"{name}, shell"] = partial(_run_in_box, SHELL, "shell", name)
    return ways


def _run_plain(code: str) -> None:
    command = [interpreter("python").command[0], *PLAIN.split()[1:], "-"]
    subprocess.run(command, input=code.encode(), stdout=subprocess.PIPE, check=True)


def _run_in_box(code: str, language: str, backend: str) -> None:
    result = run(code, language, backend=backend)
    if result.exit != 0:
        raise SystemExit(f"the program failed in {backend}: {result.stderr[-500:]}")


def _round(once: Callable[[], None], cost: Cost, runs: int, workers: int) -> None:
    def measure(_: int) -> float:
        start = time.perf_counter()
        once()
        return time.perf_counter() - start

    start, used = time.perf_counter(), _processor_seconds()
    with ThreadPoolExecutor(workers) as pool:
        cost.waits += pool.map(measure, range(runs))
    cost.processor.append((_processor_seconds() - used) / runs)
    cost.rate.append(runs / (time.perf_counter() - start))


def _processor_seconds() -> float:
    """Of this process, of its children that live (the zygote), and of all that those have waited for."""
    _wait_for_orphans()
    here = psutil.Process()
    times = [here.cpu_times(), *(child.cpu_times() for child in here.children(recursive=True))]
    return sum(spent.user + spent.system + spent.children_user + spent.children_system for spent in times)


def _wait_for_orphans() -> None:
    """bwrap ends before the first process of its box, which then comes to this process."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _middle(cost: Cost) -> float:
    return statistics.median(cost.processor)


def _report(costs: dict[str, Cost]) -> None:
    plain = _middle(costs[PLAIN])
    print("| | CPU of a run | beside plain | runs a second | median | 95 % |\n|---|---|---|---|---|---|")
    for name, cost in costs.items():
        waits = statistics.quantiles(cost.waits, n=20)
        print(
            f"| `{name}` | {_middle(cost) * 1000:.1f} ms | {_middle(cost) / plain:.2f} | {statistics.median(cost.rate):.0f} "
            f"| {waits[9] * 1000:.1f} ms | {waits[18] * 1000:.1f} ms |"
        )


if __name__ == "__main__":
    sys.exit(main())
