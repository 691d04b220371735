import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pytest

from rl.base.errors import UsageError
from rl.config import PRESETS
from rl.hardware import GIB, choose_gpu, detect_hardware, detecting, require_device
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


VISIBLE = "CUDA_VISIBLE_DEVICES"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(VISIBLE, "kept by monkeypatch")
    monkeypatch.delenv(VISIBLE)
    detecting._visible_at_first.cache_clear()
    yield
    detecting._visible_at_first.cache_clear()


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda", "mps"])
def test_without_a_number_nothing_is_hidden(device: str):
    choose_gpu(device)
    assert VISIBLE not in os.environ


def test_all_other_gpus_are_hidden_however_often_it_is_asked():
    choose_gpu("cuda:2")
    choose_gpu("cuda:2")
    assert os.environ[VISIBLE] == "2"


def test_numbers_count_what_was_visible(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VISIBLE, "3, GPU-abc")
    choose_gpu("cuda:1")
    choose_gpu("cuda:1")
    assert os.environ[VISIBLE] == "GPU-abc"
    with pytest.raises(UsageError, match="there is no device cuda:2 here: CUDA_VISIBLE_DEVICES leaves 2"):
        choose_gpu("cuda:2")


@pytest.mark.parametrize(
    ("device", "gpus", "words"),
    [
        ("cuda:0", 0, "there is no device cuda:0 here: leave it out, or take cpu"),
        ("cuda", 0, "there is no device cuda here"),
        ("cuda:1", 1, "there is cuda:0 only"),
        ("cuda:4", 2, "there are cuda:0 to cuda:1"),
    ],
)
def test_a_gpu_that_is_not_here_is_refused(device: str, gpus: int, words: str):
    with pytest.raises(UsageError, match=words):
        require_device(device, gpus)


def test_a_gpu_that_is_here_is_taken():
    require_device("cuda:1", 2)
    require_device("cuda", 1)


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


@pytest.mark.process
def test_gpus_are_read_from_nvidia_smi(nvidia_smi):
    nvidia_smi("echo 'NVIDIA H100, PCIe, 81559, 80994, 570.124.06'; echo 'NVIDIA L4, 23034, 22000, 570.124.06'")
    found = detect_hardware()
    assert [gpu.name for gpu in found.gpus] == ["NVIDIA H100, PCIe", "NVIDIA L4"]
    assert found.gpus[0].memory_total == 81559 * 2**20
    assert found.gpus[1].memory_free == 22000 * 2**20
    assert found.notes == ()


@pytest.mark.process
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


@pytest.mark.process
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


@pytest.mark.process
def test_a_program_that_cannot_run_leaves_a_note(nvidia_smi, tmp_path: Path):
    nvidia_smi("")
    (tmp_path / "nvidia-smi").write_text("#!/no/such/interpreter\n")
    assert "cannot be run" in detect_hardware().notes[0]


def rocm(*cards: dict[str, str]) -> str:
    return json.dumps({**{f"card{n}": card for n, card in enumerate(cards)}, "system": {"Driver version": "6.12.12"}})


@pytest.mark.process
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


@pytest.mark.process
@pytest.mark.parametrize("says", ["no JSON", "[]", '{"card0": {"Card series": "x"}}', '{"card0": 5}'])
def test_what_rocm_smi_says_otherwise_is_a_note(installed, says):
    installed("rocm-smi", f"echo '{says}'")
    found = detect_hardware()
    assert found.gpus == ()
    assert "rocm-smi says" in found.notes[0]


@pytest.mark.process
def test_an_apple_processor_is_a_gpu_that_shares_its_memory(installed, monkeypatch):
    installed("sysctl", '[ "$2" = machdep.cpu.brand_string ] && echo "Apple M2 Pro"')
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    found = detect_hardware()
    assert (found.cpu, found.device, found.preset) == ("Apple M2 Pro", "mps", "m1_mac")
    assert found.gpus[0].memory_total == int(0.75 * found.ram_total)
