"""What this machine is, which preset suits it, and about how long a training run would take on it."""

from __future__ import annotations

import math
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from rl.config import TrainingConfig, preset

GIB = 2**30
NVIDIA_SMI_SECONDS = 10
"""nvidia-smi hangs when a driver is stuck."""
_NVIDIA_FIELDS = "name,memory.total,memory.free,driver_version"


@dataclass(frozen=True, slots=True)
class Gpu:
    name: str
    memory_total: int
    """Bytes."""
    memory_free: int
    """Bytes."""
    driver: str


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

    @property
    def preset(self) -> str:
        """Name of the preset that suits this machine."""
        if not self.gpus:
            return "cpu"
        return "default" if max(gpu.memory_total for gpu in self.gpus) >= 20 * GIB else "small_gpu"


def detect_hardware(path: Path | str = ".") -> HardwareConfig:
    """``path``: where models and training sets would be written; it need not exist yet."""
    memory = psutil.virtual_memory()
    limit, used = _container_memory()
    total = int(min(memory.total, limit))
    gpus, notes = _nvidia_gpus()
    cpu, flags = _cpu()
    logical = psutil.cpu_count() or 1
    return HardwareConfig(
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpu=cpu,
        physical_cores=psutil.cpu_count(logical=False) or logical,
        logical_cores=logical,
        usable_cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else logical,
        cpu_bf16=bool(flags & {"avx512_bf16", "amx_bf16"}),
        ram_total=total,
        ram_available=max(0, min(memory.available, total - used)),
        disk_free=shutil.disk_usage(_existing(Path(path))).free,
        gpus=gpus,
        notes=notes,
    )


def get_ryzen_optimized_config(hardware: HardwareConfig | None = None) -> TrainingConfig:
    """The CPU preset, in bf16 where the CPU multiplies it itself (Ryzen 7000 and later do)."""
    hardware = hardware or detect_hardware()
    return preset("cpu").with_overrides({"precision": "bf16" if hardware.cpu_bf16 else "fp32"})


def _existing(path: Path) -> Path:
    path = path.absolute()
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _cpu() -> tuple[str, frozenset[str]]:
    """Model name and feature flags; the flags are empty where the system does not list them."""
    name, flags = platform.processor() or platform.machine(), frozenset[str]()
    for key, value in _key_values(Path("/proc/cpuinfo")):
        if key == "model name":
            name = value
        elif key == "flags":
            flags = frozenset(value.split())
            break
    return name, flags


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


def _nvidia_gpus() -> tuple[tuple[Gpu, ...], tuple[str, ...]]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return (), ()
    command = [program, f"--query-gpu={_NVIDIA_FIELDS}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=NVIDIA_SMI_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return (), (f"nvidia-smi did not answer within {NVIDIA_SMI_SECONDS} seconds",)
    except OSError as error:
        return (), (f"nvidia-smi cannot be run: {error.strerror}",)
    if done.returncode:
        lines = (done.stderr + done.stdout).strip().splitlines()
        return (), (f"nvidia-smi failed: {lines[0] if lines else f'exit code {done.returncode}'}",)
    return _parse_gpus(done.stdout)


def _parse_gpus(listing: str) -> tuple[tuple[Gpu, ...], tuple[str, ...]]:
    """One line a GPU: name, total and free memory in MiB, driver."""
    gpus: list[Gpu] = []
    notes: list[str] = []
    for line in filter(str.strip, listing.splitlines()):
        fields = [field.strip() for field in line.rsplit(",", 3)]
        try:
            name, total, free, driver = fields
            gpus.append(Gpu(name, int(total) * 2**20, int(free) * 2**20, driver))
        except ValueError:
            notes.append(f"nvidia-smi says of a GPU only: {line.strip()}")
    return tuple(gpus), tuple(notes)


# --- how long, how much memory -------------------------------------------------------------------------------------------

_CPU_CORE_FLOPS = 40e9
"""Sustained fp32 FLOP/s of one core in training: an AVX-512 core multiplies large matrices at 87e9, training gets half."""
_CPU_BF16_GAIN = 1.5
"""Measured on DPO steps, where the CPU has bf16 instructions."""
_GPU_FLOPS = (
    ("B200", 400e12), ("H200", 200e12), ("H100", 200e12), ("A100", 60e12), ("L40", 60e12), ("RTX 50", 40e12),
    ("RTX 40", 25e12), ("A10", 25e12), ("RTX 30", 15e12), ("L4", 20e12), ("T4", 10e12), ("", 10e12),
)  # fmt: skip
"""About a fifth of the data sheet's dense bf16 FLOP/s, by a part of the name, first match; the last is for all others."""
_GPU_FP32_SHARE = 0.25
_RUNTIME_BYTES = GIB // 2
"""PyTorch itself, loaded."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    parameters: int
    layers: int
    hidden_size: int
    vocab_size: int


@dataclass(frozen=True, slots=True)
class TrainingEstimate:
    """From constants of the device's class, not from a measurement of the device: right within a factor of 2 to 3."""

    steps: int
    """Optimiser steps."""
    seconds: float
    peak_memory_bytes: int
    """On the device that trains: GPU memory where there is a GPU, else RAM."""


@dataclass(frozen=True, slots=True)
class RowWork:
    """What a method does with a row, with LoRA."""

    sequences: int
    """A prompt with an answer each."""
    flops: int
    """A parameter and token: 2 for a forward pass, and 2 for a backward pass, since the frozen weights need no gradient of
    their own."""


ROW_WORK: dict[str, RowWork] = {
    "dpo": RowWork(2, 6),  # forward and backward of the policy, forward of the reference
    "kto": RowWork(1, 10),  # the same, and a forward pass of both with the answer of another row
}


def estimate(
    rows: int,
    tokens: float,
    model: ModelShape,
    config: TrainingConfig,
    hardware: HardwareConfig,
    method: str = "dpo",
) -> TrainingEstimate:
    """``tokens``: of a prompt with an answer."""
    if rows < 0 or tokens <= 0:
        raise ValueError(f"{rows} rows of {tokens} tokens a sequence")
    work = ROW_WORK[method]
    per_row = work.sequences * min(tokens, config.max_length)
    per_epoch = math.ceil(math.ceil(rows / config.batch_size) / config.gradient_accumulation)
    again = 2 if config.activation_checkpointing else 0  # the policy's forward pass
    flops = (work.flops + again) * model.parameters * per_row * rows * config.epochs
    half = _trains_in_bf16(config, hardware)
    return TrainingEstimate(
        steps=math.ceil(config.epochs * per_epoch),
        seconds=flops / _device_flops(hardware, half),
        peak_memory_bytes=_peak_memory(model, config, math.ceil(config.batch_size * per_row), 2 if half else 4),
    )


def _trains_in_bf16(config: TrainingConfig, hardware: HardwareConfig) -> bool:
    return config.precision == "bf16" or (config.precision == "auto" and bool(hardware.gpus))


def _device_flops(hardware: HardwareConfig, half: bool) -> float:
    if hardware.gpus:
        name = hardware.gpus[0].name
        return next(flops for part, flops in _GPU_FLOPS if part in name) * (1 if half else _GPU_FP32_SHARE)
    gain = _CPU_BF16_GAIN if half and hardware.cpu_bf16 else 1
    return _CPU_CORE_FLOPS * min(hardware.physical_cores, hardware.usable_cores) * gain


def _peak_memory(model: ModelShape, config: TrainingConfig, tokens: int, width: int) -> int:
    """``tokens``: in one forward pass; ``width``: bytes of a weight and of an activation."""
    weights = model.parameters * width
    # r * (inputs + outputs) over the seven linear layers of a block comes to about 20 r * hidden; each adapter weight has
    # a gradient and two moments beside it, in fp32.
    adapter = 16 * 20 * config.lora_r * model.hidden_size * model.layers
    # A block keeps about 17 values a token and hidden unit (Korthikanti et al. 2022), or one when it is recomputed.
    kept = model.layers + 17 if config.activation_checkpointing else 17 * model.layers
    activations = tokens * model.hidden_size * kept * width
    logits = tokens * model.vocab_size * 4 * 3  # fp32: the logits, their log-softmax and its gradient
    return weights + adapter + activations + logits + _RUNTIME_BYTES
