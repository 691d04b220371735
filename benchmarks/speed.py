"""The workloads of ``python3 -m benchmarks``, one or two at a time, and what is made of their figures."""

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

from django.test.utils import override_settings

from benchmarks import speed_picture, speed_report, speed_workloads
from rl.base.names import unknown_name
from rl.lm import loading

_MOST_ARENAS: Final = -8
"""Of ``mallopt``: M_ARENA_MAX."""
Rows = list[dict[str, Any]]


def run(options: argparse.Namespace) -> int:
    """The exit code: 2 where a workload is not known, 1 where ways that compute the same do not agree."""
    if problem := _complete(options):
        print(problem, file=sys.stderr)
        return 2
    started = time.perf_counter()
    loading.quiet()
    base = speed_workloads.prepare_model(options.short)
    machine = speed_report.describe_machine()
    results: dict[str, Any] = {"machine": machine, "workloads": {}}
    if options.report:
        print(speed_report.machine_line(machine), flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        figures = (
            map(partial(_run_here, base, options), options.names)
            if options.jobs == 1
            else pool.map(partial(_run_apart, options), options.names)
        )
        for name, rows in zip(options.names, figures, strict=True):
            results["workloads"][name] = rows
            if options.report:
                print(f"\n{name}: {speed_workloads.WORKLOADS[name].about}", flush=True)
                print(speed_report.table(rows, machine), flush=True)
    results["minutes"] = round((time.perf_counter() - started) / 60, 1)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    if options.picture:
        options.picture.write_text(speed_picture.draw(results["workloads"]))
    return speed_report.check(results["workloads"]) if options.report else 0


def _complete(options: argparse.Namespace) -> str:
    """Puts the names of the workloads and how many run at a time into ``options``; what is wrong with them."""
    options.names = options.only.split(",") if options.only else list(speed_workloads.WORKLOADS)
    if unknown := sorted(set(options.names) - set(speed_workloads.WORKLOADS)):
        return unknown_name("workload", unknown[0], speed_workloads.WORKLOADS)
    if options.short or len(options.names) == 1:
        options.jobs = 1
    options.jobs = options.jobs or speed_report.fitting_jobs()
    return ""


def _run_here(base: Path, options: argparse.Namespace, name: str) -> Rows:
    _share_memory()
    with tempfile.TemporaryDirectory(prefix="ratchet-speed-") as folder, override_settings(DATA_DIR=folder):
        rounds = 1 if options.short else options.rounds
        return speed_workloads.WORKLOADS[name].run(base, Path(folder), rounds, partial(_tell, name))


def _run_apart(options: argparse.Namespace, name: str) -> Rows:
    """In a process of its own. Raises CalledProcessError where that fails."""
    with tempfile.TemporaryDirectory(prefix="ratchet-speed-") as folder:
        file = Path(folder) / "figures.json"
        arguments = ["--only", name, "--rounds", str(options.rounds), "--json", str(file), "--no-report"]
        subprocess.run([sys.executable, "-m", "benchmarks", *arguments], check=True)
        rows: Rows = json.loads(file.read_text())["workloads"][name]
        return rows


def _share_memory() -> None:
    """Each trainer has a thread of its own, and what one of them has freed must serve the others: five hold 20 GB else."""
    if choose := getattr(ctypes.CDLL(None), "mallopt", None):  # glibc's
        choose(_MOST_ARENAS, 1)


def _tell(name: str, text: str) -> None:
    print(f"{name}: {text}", file=sys.stderr, flush=True)
