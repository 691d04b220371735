"""GPUs: NVIDIA's as nvidia-smi lists them, AMD's as rocm-smi does, Apple's, which every Apple processor has. Those that
CUDA_VISIBLE_DEVICES hides from PyTorch are not among them."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from itertools import takewhile

from rl.hardware.choosing import visible_names

SECONDS = 10
"""The programs hang when a driver is stuck."""
_NVIDIA = ("--query-gpu=name,memory.total,memory.free,driver_version", "--format=csv,noheader,nounits")
_AMD = ("--showproductname", "--showmeminfo", "vram", "--showdriverversion", "--json")
_APPLE_SHARE = 0.75
"""Share of the memory of CPU and GPU together that Metal advises to use at most on the larger machines."""

MIB = 2**20


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
        process = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "", (f"{program} did not answer within {SECONDS} seconds",)
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
