"""What a benchmark of speed prints: the machine, a table for each workload, and whether all ways computed the same."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import psutil
import torch

from benchmarks.speed_trainers import IN_BF16
from rl.hardware import detect_hardware

MOST_DIFFERENCE: Final = 1e-4
"""Between losses of ways that compute the same in float32."""
SIZE: Final = (512, 1536)
JOB_BYTES: Final = 10 * 2**30
"""That a workload may need."""


def describe_machine() -> dict[str, Any]:
    hardware = detect_hardware()
    return {
        "cpu": hardware.cpu,
        "cores": hardware.usable_cores,
        "threads": torch.get_num_threads(),
        "fp32_gflops": round(_gflops(torch.float32), 1),
        "bf16_gflops": round(_gflops(torch.bfloat16), 1),
    }


def fitting_jobs() -> int:
    """Workloads that run at a time: two, where there are cores and memory for them."""
    fits = psutil.virtual_memory().available >= 2 * JOB_BYTES
    return 2 if fits and detect_hardware().usable_cores > 1 else 1


def machine_line(machine: Mapping[str, Any]) -> str:
    rates = f"{machine['fp32_gflops']} GFLOP a CPU second in float32 and {machine['bf16_gflops']} in bfloat16"
    return f"{machine['cpu']}, {machine['cores']} cores: {rates}"


def table(rows: Sequence[Mapping[str, Any]], machine: Mapping[str, Any]) -> str:
    """``of rate``: how fast a way's matrix products go, all of its time counted, in parts of the machine's own rate."""
    head = f"{'way':<24} {'CPU s':>8} {'range':>17} {'wall s':>8} {'faster':>8} {'of rate':>8} {'loss differs by':>16}"
    return "\n".join([head, *(_line(row, machine["fp32_gflops"]) for row in rows)])


def _line(row: Mapping[str, Any], gflops: float) -> str:
    low, high = row["cpu_range"]
    of_rate = f"{row['gflops'] / gflops:.0%}" if row["gflops"] else ""
    return (
        f"{row['way']:<24} {row['cpu_seconds']:>8.2f} {f'{low:.2f} to {high:.2f}':>17} {row['wall_seconds']:>8.2f} "
        f"{row['faster_cpu']:>7.2f}x {of_rate:>8} {row['loss_difference']:>16.1e}"
    )


def check(workloads: Mapping[str, Sequence[Mapping[str, Any]]]) -> int:
    """0 where all ways in float32 agree with the first, TRL's in float32; 1 otherwise."""
    wrong = [
        f"{name}: {row['way']} differs by {row['loss_difference']:.1e}"
        for name, rows in workloads.items()
        for row in rows
        if row["loss_difference"] > MOST_DIFFERENCE and row["way"] not in IN_BF16
    ]
    print("\n" + ("\n".join(wrong) if wrong else f"all ways in float32 agree to {MOST_DIFFERENCE:g}"))
    return int(bool(wrong))


def _gflops(dtype: torch.dtype) -> float:
    """Of a product as large as those of a small model's layers, a CPU second."""
    tokens, width = SIZE
    first, second = torch.randn(tokens, 576).to(dtype), torch.randn(576, width).to(dtype)
    first @ second
    started, products = time.process_time(), 0
    while time.process_time() - started < 0.5:
        first @ second
        products += 1
    return products * 2 * tokens * 576 * width / (time.process_time() - started) / 1e9
