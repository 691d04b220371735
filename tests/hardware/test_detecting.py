from __future__ import annotations

from dataclasses import asdict

from rl.config import PRESETS
from rl.hardware import detect_hardware
from tests.hardware.machines import LAPTOP, MAC, SERVER, with_gpu


def test_this_machine_has_a_processor_memory_and_a_disk():
    found = detect_hardware("a/folder/that/does/not/exist/yet")
    assert 1 <= found.physical_cores <= found.logical_cores
    assert 1 <= found.usable_cores <= found.logical_cores
    assert 0 < found.ram_available <= found.ram_total
    assert found.disk_free > 0
    assert found.cpu
    assert asdict(found)["ram_total"] == found.ram_total
    assert found.cpu_avx2 >= found.cpu_avx512 >= found.cpu_bf16


def test_the_preset_follows_the_largest_gpu():
    machines = {
        "cpu": LAPTOP,
        "default": SERVER,
        "small_gpu": with_gpu(12),
        "memory_constrained": with_gpu(6),
        "m1_mac": MAC,
    }
    assert {name: machine.preset for name, machine in machines.items()} == {name: name for name in machines}
    assert machines.keys() <= PRESETS.keys()
