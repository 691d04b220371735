import json
import sys
from functools import partial

import pytest

from rl.config import PRESETS, TrainingConfig
from rl.hardware import PROFILES
from tests.commands.printing import printed, refused
from tests.hardware.machines import LAPTOP, RYZEN, with_gpu

told = partial(printed, "detect_hardware")

COMMAND = "rl.management.commands.detect_hardware.detect_hardware"


@pytest.mark.parametrize("profile", [name for name in PROFILES if name != "GPU_ENABLED"])
def test_it_answers_with_one_document(data_dir, profile):
    found = json.loads(told("--profile", profile, "--json"))
    assert found["profile"] == profile
    assert found["preset"] in PRESETS
    assert found["values"].keys() == found["reasons"].keys()
    assert found["hardware"]["ram_total"] > 0
    known = {name: value for name, value in found["values"].items() if hasattr(TrainingConfig(), name)}
    assert TrainingConfig(**known).lora_r == found["values"]["lora_r"]


def test_it_prints_the_machine_and_a_reason_for_each_number(data_dir, monkeypatch):
    monkeypatch.setattr(COMMAND, lambda path: RYZEN)
    text = told("--profile", "RYZEN_OPTIMIZED")
    assert "AMD Ryzen 9 7900" in text
    assert "AVX2, AVX-512, bf16" in text
    assert "RYZEN_OPTIMIZED on cpu" in text
    assert "1.5B" in text
    assert "preset for --config: cpu" in text


def test_a_gpu_is_shown_with_its_kind_and_memory(data_dir, monkeypatch):
    monkeypatch.setattr(COMMAND, lambda path: with_gpu(24, "rocm"))
    assert "GPU 0 (rocm)" in told()
    assert "24.0 GiB" in told()


def test_a_profile_that_needs_a_gpu_is_exit_code_2_without_one(data_dir, monkeypatch):
    monkeypatch.setattr(COMMAND, lambda path: LAPTOP)
    refused(told, "GPU_ENABLED needs a GPU", "--profile", "GPU_ENABLED")


def test_torch_is_not_loaded(data_dir):
    before = "torch" in sys.modules
    told()
    assert ("torch" in sys.modules) == before
