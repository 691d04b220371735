"""Processor, memory, disk and accelerators, asked of the system and of the drivers' own programs: torch is not needed."""

from __future__ import annotations

import math
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from rl.hardware import accelerators
from rl.hardware.accelerators import Gpu

GIB = 2**30


@dataclass(frozen=True, slots=True)
class HardwareConfig:
    platform: str
    cpu: str
    physical_cores: int
    logical_cores: int
    usable_cores: int
    """Logical cores that this process may run on."""
    cpu_bf16: bool
    """The CPU multiplies bfloat16 itself (AVX-512 BF16 or AMX) rather than emulating it."""
    ram_total: int
    """Bytes; of the container where a container limits it."""
    ram_available: int
    """Bytes."""
    disk_free: int
    """Bytes, on the file system of the path that was asked about."""
    gpus: tuple[Gpu, ...] = ()
    notes: tuple[str, ...] = ()
    """What could not be found out, and why."""
    cpu_avx2: bool = False
    cpu_avx512: bool = False
    cpu_runs_bf16: bool = False
    """PyTorch computes in bfloat16 on it about as fast as in float32, or faster."""

    @property
    def device(self) -> str:
        """cuda, rocm, mps or cpu: what a training would use."""
        return self.gpus[0].backend if self.gpus else "cpu"

    @property
    def preset(self) -> str:
        """Name of the preset that suits this machine."""
        if self.device in ("cpu", "mps"):
            return {"cpu": "cpu", "mps": "m1_mac"}[self.device]
        memory = max(gpu.memory_total for gpu in self.gpus)
        return "default" if memory >= 20 * GIB else "small_gpu" if memory >= 8 * GIB else "memory_constrained"


def detect_hardware(path: Path | str = ".") -> HardwareConfig:
    """``path``: where models and training sets would be written; it need not exist yet."""
    memory = psutil.virtual_memory()
    limit, used = _container_memory()
    total = int(min(memory.total, limit))
    cpu, flags = _cpu()
    available = max(0, min(memory.available, total - used))
    gpus, notes = accelerators.detect_gpus(cpu, total, available)
    logical = psutil.cpu_count() or 1
    return HardwareConfig(
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpu=cpu,
        physical_cores=psutil.cpu_count(logical=False) or logical,
        logical_cores=logical,
        usable_cores=usable_cores(),
        cpu_bf16=bool(flags & {"avx512_bf16", "amx_bf16"}),
        ram_total=total,
        ram_available=available,
        disk_free=shutil.disk_usage(_existing(Path(path))).free,
        gpus=gpus,
        notes=notes,
        cpu_avx2="avx2" in flags,
        cpu_avx512="avx512f" in flags,
        cpu_runs_bf16=_runs_bf16(flags),
    )


@cache
def cpu_runs_bf16() -> bool:
    """As in HardwareConfig; nothing else is asked for."""
    return _runs_bf16(_cpu()[1])


def usable_cores() -> int:
    """Logical cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else psutil.cpu_count() or 1


def _runs_bf16(flags: frozenset[str]) -> bool:
    """As oneDNN decides, by which PyTorch computes: AVX-512, AVX-NE-CONVERT, or BF16 of ARM."""
    return flags >= {"avx512bw", "avx512dq", "avx512vl"} or not flags.isdisjoint({"avx_ne_convert", "bf16"})


def _existing(path: Path) -> Path:
    path = path.absolute()
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _cpu() -> tuple[str, frozenset[str]]:
    """Model name and feature flags; the flags are empty where the system does not list them."""
    if sys.platform == "darwin":
        return _apple_cpu()
    name, flags = platform.processor() or platform.machine(), frozenset[str]()
    for key, value in _key_values(Path("/proc/cpuinfo")):
        if key == "model name":
            name = value
        elif key in ("flags", "Features"):  # of x86, and of ARM
            flags = frozenset(value.split())
            break
    return name, flags


def _apple_cpu() -> tuple[str, frozenset[str]]:
    def ask(key: str) -> str:
        return accelerators.output("sysctl", "-n", f"machdep.cpu.{key}")[0].strip()

    flags = f"{ask('features')} {ask('leaf7_features')}".lower().split()  # none on Apple's own processors
    return ask("brand_string") or platform.machine(), frozenset(flags)


def _key_values(path: Path) -> Iterator[tuple[str, str]]:
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            yield key.strip(), value.strip()


def _container_memory() -> tuple[float, int]:
    """Limit (infinite where there is none) and use of the control group, version 2, in bytes."""
    folder = Path("/sys/fs/cgroup")
    limit, current = folder / "memory.max", folder / "memory.current"
    if not (limit.exists() and current.exists()):
        return math.inf, 0
    text = limit.read_text().strip()
    return (math.inf, 0) if text == "max" else (int(text), int(current.read_text()))
