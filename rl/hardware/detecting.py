"""Processor, memory, disk and accelerators, asked of the system and of the drivers' own programs: torch is not needed.

GPUs: NVIDIA's as nvidia-smi lists them, AMD's as rocm-smi does, Apple's, which every Apple processor has. Those that
CUDA_VISIBLE_DEVICES hides from PyTorch are not among them."""

from __future__ import annotations

import json
import math
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path

import psutil

from rl.base.errors import UsageError

_VISIBLE = "CUDA_VISIBLE_DEVICES"
GIB = 2**30
PROGRAM_SECONDS = 10
"""The programs hang when a driver is stuck."""
_NVIDIA = ("--query-gpu=name,memory.total,memory.free,driver_version", "--format=csv,noheader,nounits")
_AMD = ("--showproductname", "--showmeminfo", "vram", "--showdriverversion", "--json")
_APPLE_SHARE = 0.75
"""Share of the memory of CPU and GPU together that Metal advises to use at most on the larger machines."""
MIB = 2**20


def choose_gpu(device: str) -> None:
    """Hides all other GPUs from the libraries of this process and of its children, where ``device`` is cuda:N: some of them
    take the first that they see. To be called before any looks. Raises UsageError for one that was hidden before."""
    if ":" not in device:
        return
    number, visible = int(device.partition(":")[2]), _visible_at_first()
    if visible is None:
        os.environ[_VISIBLE] = str(number)
    elif number < len(visible):
        os.environ[_VISIBLE] = visible[number]
    else:
        raise UsageError(f"there is no device {device} here: {_VISIBLE} leaves {len(visible)}, the first is cuda:0")


def require_device(device: str, gpus: int) -> None:
    """``gpus``: how many PyTorch calls cuda there are. Raises UsageError for one that is not here."""
    number = int(device.partition(":")[2] or 0)
    if number >= gpus:
        there = f"there are cuda:0 to cuda:{gpus - 1}" if gpus > 1 else "there is cuda:0 only" if gpus else ""
        raise UsageError(f"there is no device {device} here: {there or 'leave it out, or take cpu'}")


def visible_names() -> list[str] | None:
    """Numbers or UUIDs, as CUDA_VISIBLE_DEVICES has them now; None: all."""
    value = os.environ.get(_VISIBLE)
    return None if value is None else [name.strip() for name in value.split(",") if name.strip()]


_visible_at_first = cache(visible_names)


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
    gpus, notes = detect_gpus(cpu, total, available)
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
    name, flags = "", frozenset[str]()
    for key, value in _key_values(Path("/proc/cpuinfo")):
        if key == "model name":
            name = value
        elif key in ("flags", "Features"):  # of x86, and of ARM
            flags = frozenset(value.split())
            break
    return name or platform.processor() or platform.machine(), flags


def _apple_cpu() -> tuple[str, frozenset[str]]:
    def ask(key: str) -> str:
        return output("sysctl", "-n", f"machdep.cpu.{key}")[0].strip()

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


@dataclass(frozen=True, slots=True)
class Gpu:
    name: str
    memory_total: int
    """Bytes."""
    memory_free: int
    """Bytes."""
    driver: str
    backend: str = "cuda"
    """cuda, rocm (which PyTorch calls cuda too) or mps."""


Detection = tuple[tuple[Gpu, ...], tuple[str, ...]]
"""GPUs, and what could not be found out."""


def detect_gpus(cpu: str, ram_total: int, ram_available: int) -> Detection:
    """``cpu``: its name, which is its GPU's too where Apple makes both."""
    if sys.platform == "darwin" and platform.machine() == "arm64":
        usable = int(_APPLE_SHARE * ram_total)
        return (Gpu(cpu, usable, min(usable, ram_available), "Metal", "mps"),), ()
    nvidia, notes = _nvidia()
    amd, more_notes = ((), ()) if nvidia else _amd()
    return _visible(nvidia + amd), notes + more_notes


def _visible(gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """As CUDA reads the variable: in its order, up to a number that is not there. Where it has UUIDs, which the drivers'
    programs were not asked for, all."""
    names = visible_names()
    if names is None or any(name.startswith(("GPU-", "MIG-")) for name in names):
        return gpus
    numbers = (int(name) if name.isdecimal() else -1 for name in names)
    return tuple(gpus[number] for number in takewhile(lambda number: 0 <= number < len(gpus), numbers))


def output(program: str, *arguments: str) -> tuple[str, tuple[str, ...]]:
    """What the program prints, or nothing and why; nothing and no reason where it is not installed."""
    path = shutil.which(program)
    if path is None:
        return "", ()
    try:
        process = subprocess.run(
            [path, *arguments], capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return "", (f"{program} did not answer within {PROGRAM_SECONDS} seconds",)
    except OSError as error:
        return "", (f"{program} cannot be run: {error.strerror}",)
    if process.returncode:
        lines = (process.stderr + process.stdout).strip().splitlines()
        return "", (f"{program} failed: {lines[0] if lines else f'exit code {process.returncode}'}",)
    return process.stdout, ()


def _nvidia() -> Detection:
    """One line a GPU: name, total and free memory in MiB, driver."""
    listing, notes = output("nvidia-smi", *_NVIDIA)
    gpus: list[Gpu] = []
    unread: list[str] = []
    for line in filter(str.strip, listing.splitlines()):
        try:
            name, total, free, driver = (field.strip() for field in line.rsplit(",", 3))
            gpus.append(Gpu(name, int(total) * MIB, int(free) * MIB, driver))
        except ValueError:
            unread.append(f"nvidia-smi says of a GPU only: {line.strip()}")
    return tuple(gpus), (*notes, *unread)


def _amd() -> Detection:
    """A JSON object with one entry a card; the names of the fields change their case between releases."""
    listing, notes = output("rocm-smi", *_AMD)
    if not listing.strip():
        return (), notes
    try:
        cards = {
            card: {key.lower(): value for key, value in fields.items()} for card, fields in json.loads(listing).items()
        }
        driver = str(cards.get("system", {}).get("driver version", ""))
        return tuple(_card(fields, driver) for card, fields in cards.items() if card.startswith("card")), notes
    except (ValueError, KeyError, AttributeError, TypeError):
        return (), (f"rocm-smi says of the GPUs only: {listing.strip().splitlines()[0][:200]}",)


def _card(fields: dict[str, str], driver: str) -> Gpu:
    total, used = int(fields["vram total memory (b)"]), int(fields["vram total used memory (b)"])
    name = fields.get("card series") or fields.get("card model") or "AMD GPU"
    return Gpu(name, total, total - used, driver, "rocm")
