from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from rl.hardware import GIB, detect_hardware, detecting

pytestmark = pytest.mark.process


@pytest.fixture
def installed(tmp_path: Path, monkeypatch):
    """Puts a program of that name, with the given shell script, on the PATH, and no other."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def install(name: str, script: str) -> None:
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))

    return install


@pytest.fixture
def nvidia_smi(installed):
    return partial(installed, "nvidia-smi")


def test_gpus_are_read_from_nvidia_smi(nvidia_smi):
    nvidia_smi("echo 'NVIDIA H100, PCIe, 81559, 80994, 570.124.06'; echo 'NVIDIA L4, 23034, 22000, 570.124.06'")
    found = detect_hardware()
    assert [gpu.name for gpu in found.gpus] == ["NVIDIA H100, PCIe", "NVIDIA L4"]
    assert found.gpus[0].memory_total == 81559 * 2**20
    assert found.gpus[1].memory_free == 22000 * 2**20
    assert found.notes == ()


@pytest.mark.parametrize(
    ("script", "note"),
    [
        ("echo 'Failed to initialize NVML: Driver/library version mismatch' >&2; exit 18", "Driver/library"),
        ("exit 9", "exit code 9"),
        ("echo 'NVIDIA GB10, [N/A], [N/A], 580.1'", "GB10"),
        ("exec /bin/sleep 20", "did not answer"),
    ],
)
def test_a_gpu_that_cannot_be_read_leaves_a_note(nvidia_smi, monkeypatch, script, note):
    monkeypatch.setattr(detecting, "PROGRAM_SECONDS", 0.5)
    nvidia_smi(script)
    found = detect_hardware()
    assert found.gpus == ()
    assert note in found.notes[0]


@pytest.mark.parametrize(
    ("visible", "left"),
    [
        ("", []),
        ("-1", []),
        ("1", ["NVIDIA L4"]),
        ("1, 0", ["NVIDIA L4", "NVIDIA H100"]),
        ("0,2,1", ["NVIDIA H100"]),
        ("GPU-5f2c", ["NVIDIA H100", "NVIDIA L4"]),
    ],
)
def test_gpus_that_are_hidden_from_pytorch_are_not_listed(nvidia_smi, monkeypatch, visible: str, left: list[str]):
    nvidia_smi("echo 'NVIDIA H100, 81559, 80994, 570.124.06'; echo 'NVIDIA L4, 23034, 22000, 570.124.06'")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [gpu.name for gpu in detect_hardware().gpus] == left


def test_a_program_that_cannot_run_leaves_a_note(nvidia_smi, tmp_path: Path):
    nvidia_smi("")
    (tmp_path / "nvidia-smi").write_text("#!/no/such/interpreter\n")
    assert "cannot be run" in detect_hardware().notes[0]


def rocm(*cards: dict[str, str]) -> str:
    return json.dumps({**{f"card{n}": card for n, card in enumerate(cards)}, "system": {"Driver version": "6.12.12"}})


@pytest.mark.parametrize("key", ["Card series", "Card Series"])
def test_gpus_of_amd_are_read_from_rocm_smi(installed, key):
    card = {
        key: "AMD Radeon RX 7900 XTX",
        "VRAM Total Memory (B)": str(24 * GIB),
        "VRAM Total Used Memory (B)": str(1 * GIB),
    }
    installed("rocm-smi", f"echo '{rocm(card, card)}'")
    found = detect_hardware()
    assert [gpu.name for gpu in found.gpus] == ["AMD Radeon RX 7900 XTX"] * 2
    assert (found.gpus[0].memory_total, found.gpus[0].memory_free) == (24 * GIB, 23 * GIB)
    assert (found.device, found.gpus[0].driver, found.notes) == ("rocm", "6.12.12", ())


@pytest.mark.parametrize("says", ["no JSON", "[]", '{"card0": {"Card series": "x"}}', '{"card0": 5}'])
def test_what_rocm_smi_says_otherwise_is_a_note(installed, says):
    installed("rocm-smi", f"echo '{says}'")
    found = detect_hardware()
    assert found.gpus == ()
    assert "rocm-smi says" in found.notes[0]


def test_an_apple_processor_is_a_gpu_that_shares_its_memory(installed, monkeypatch):
    installed("sysctl", '[ "$2" = machdep.cpu.brand_string ] && echo "Apple M2 Pro"')
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    found = detect_hardware()
    assert (found.cpu, found.device, found.preset) == ("Apple M2 Pro", "mps", "m1_mac")
    assert found.gpus[0].memory_total == int(0.75 * found.ram_total)
