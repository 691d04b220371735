from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from rl import hardware
from rl.config import PRESETS, preset
from rl.hardware import GIB, Gpu, HardwareConfig, ModelShape, detect_hardware, estimate, get_ryzen_optimized_config

HALF_BILLION = ModelShape(parameters=494_000_000, layers=24, hidden_size=896, vocab_size=151_936)
LAPTOP = HardwareConfig(
    platform="Linux 6.1 x86_64", cpu="Ryzen 7", physical_cores=8, logical_cores=16, usable_cores=16, cpu_bf16=True,
    ram_total=32 * GIB, ram_available=24 * GIB, disk_free=100 * GIB,
)  # fmt: skip
SERVER = replace(LAPTOP, gpus=(Gpu("NVIDIA H100 80GB HBM3", 80 * GIB, 79 * GIB, "570.1"),))


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch):
    """Puts a program of that name, with the given shell script, on the PATH."""

    def install(script: str) -> None:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return install


def test_this_machine_has_a_processor_memory_and_a_disk():
    found = detect_hardware("a/folder/that/does/not/exist/yet")
    assert 1 <= found.physical_cores <= found.logical_cores
    assert 1 <= found.usable_cores <= found.logical_cores
    assert 0 < found.ram_available <= found.ram_total
    assert found.disk_free > 0
    assert found.cpu
    assert asdict(found)["ram_total"] == found.ram_total


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
        ("exec sleep 20", "did not answer"),
    ],
)
def test_a_gpu_that_cannot_be_read_leaves_a_note(nvidia_smi, monkeypatch, script, note):
    monkeypatch.setattr(hardware, "NVIDIA_SMI_SECONDS", 0.5)
    nvidia_smi(script)
    found = detect_hardware()
    assert found.gpus == ()
    assert note in found.notes[0]


def test_a_program_that_cannot_run_leaves_a_note(nvidia_smi, tmp_path: Path):
    nvidia_smi("")
    (tmp_path / "nvidia-smi").write_text("#!/no/such/interpreter\n")
    assert "cannot be run" in detect_hardware().notes[0]


def test_the_preset_follows_the_largest_gpu():
    assert LAPTOP.preset == "cpu"
    assert SERVER.preset == "default"
    assert replace(LAPTOP, gpus=(Gpu("NVIDIA RTX 3060", 12 * GIB, 11 * GIB, "1"),)).preset == "small_gpu"
    assert {LAPTOP.preset, SERVER.preset} <= PRESETS.keys()


def test_a_ryzen_with_bf16_instructions_trains_in_bf16():
    assert get_ryzen_optimized_config(LAPTOP).precision == "bf16"
    assert get_ryzen_optimized_config(replace(LAPTOP, cpu_bf16=False)) == preset("cpu")


def test_steps_are_counted_as_the_trainer_counts_them():
    config = preset("cpu").with_overrides({"batch_size": 4, "gradient_accumulation": 4, "epochs": 3})
    assert estimate(100, 200, HALF_BILLION, config, LAPTOP).steps == 21  # 25 batches: 7 steps an epoch
    assert estimate(0, 200, HALF_BILLION, config, LAPTOP).steps == 0


def test_the_time_is_six_flops_for_each_parameter_and_token():
    config = preset("cpu").with_overrides({"epochs": 2})
    seconds = estimate(50, 200, HALF_BILLION, config, LAPTOP).seconds
    assert seconds == pytest.approx(6 * 494e6 * 400 * 50 * 2 / (8 * 40e9))
    again = config.with_overrides({"activation_checkpointing": True})
    assert estimate(50, 200, HALF_BILLION, again, LAPTOP).seconds == pytest.approx(seconds * 8 / 6)
    half = config.with_overrides({"precision": "bf16"})
    assert estimate(50, 200, HALF_BILLION, half, LAPTOP).seconds == pytest.approx(seconds / 1.5)


def test_rows_longer_than_the_limit_are_cut():
    config = preset("cpu").with_overrides({"max_length": 128})
    cut = estimate(50, 10_000, HALF_BILLION, config, LAPTOP)
    assert cut == estimate(50, 128, HALF_BILLION, config, LAPTOP)


def test_a_gpu_is_faster_and_holds_the_weights_in_two_bytes():
    config = preset("default")
    fast, slow = (estimate(500, 300, HALF_BILLION, config, machine) for machine in (SERVER, LAPTOP))
    assert fast.seconds < slow.seconds / 100
    assert 494e6 * 2 < fast.peak_memory_bytes < slow.peak_memory_bytes
    unknown = replace(SERVER, gpus=(Gpu("Some other card", 24 * GIB, 24 * GIB, "1"),))
    assert estimate(500, 300, HALF_BILLION, config, unknown).seconds > fast.seconds


def test_activation_checkpointing_saves_memory():
    config = preset("default").with_overrides({"batch_size": 8})
    lean = config.with_overrides({"activation_checkpointing": True})
    memory, less = (estimate(10, 1000, HALF_BILLION, c, SERVER).peak_memory_bytes for c in (config, lean))
    assert less < memory


def test_no_tokens_is_a_mistake():
    with pytest.raises(ValueError, match="rows of 0 tokens"):
        estimate(10, 0, HALF_BILLION, preset("cpu"), LAPTOP)
