"""Machines that are not this one."""

from dataclasses import replace

from rl.hardware import GIB, Gpu, HardwareConfig, ModelShape

HALF_BILLION = ModelShape(parameters=494_000_000, layers=24, hidden_size=896, vocab_size=151_936)
LAPTOP = HardwareConfig(
    platform="Linux 6.1 x86_64",
    cpu="Ryzen 7",
    physical_cores=8,
    logical_cores=16,
    usable_cores=16,
    cpu_bf16=True,
    ram_total=32 * GIB,
    ram_available=24 * GIB,
    disk_free=100 * GIB,
    cpu_avx2=True,
    cpu_avx512=True,
    cpu_runs_bf16=True,
)
SERVER = replace(LAPTOP, gpus=(Gpu("NVIDIA H100 80GB HBM3", 80 * GIB, 79 * GIB, "570.1"),))
RYZEN = replace(LAPTOP, cpu="AMD Ryzen 9 7900", ram_total=40 * GIB)
MAC = replace(LAPTOP, cpu="Apple M1", cpu_bf16=False, gpus=(Gpu("Apple M1", 12 * GIB, 8 * GIB, "Metal", "mps"),))


def with_gpu(gib: int, backend: str = "cuda") -> HardwareConfig:
    return replace(LAPTOP, gpus=(Gpu("Some card", gib * GIB, gib * GIB, "1", backend),))
