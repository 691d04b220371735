from dataclasses import replace

import pytest

from rl.base.errors import UsageError
from rl.config import METHODS, preset
from rl.hardware import GIB, PROFILES, get_ryzen_optimized_config, recommend
from tests.hardware.machines import LAPTOP, MAC, RYZEN, SERVER, with_gpu

SMALL = replace(LAPTOP, ram_total=8 * GIB, physical_cores=2, usable_cores=4, cpu_bf16=False)


def test_a_ryzen_with_40_gb_gets_its_numbers():
    values = recommend(RYZEN, "RYZEN_OPTIMIZED").values
    assert (values["batch_size"], values["model_size"], values["num_generations"]) == (2, "1.5B", 6)
    assert (values["lora_r"], values["lora_alpha"], values["precision"]) == (16, 32, "bf16")
    assert recommend(RYZEN).values == values


def test_a_ryzen_without_bf16_instructions_trains_in_fp32():
    assert get_ryzen_optimized_config(RYZEN).precision == "bf16"
    assert get_ryzen_optimized_config(replace(RYZEN, cpu_bf16=False)).precision == "fp32"


@pytest.mark.parametrize("machine", [LAPTOP, RYZEN, SERVER, MAC, SMALL, with_gpu(4), with_gpu(24, "rocm")])
@pytest.mark.parametrize("profile", ["AUTO_DETECT", "RYZEN_OPTIMIZED", "CPU_ONLY"])
def test_every_number_has_a_reason_and_suits_every_method(machine, profile):
    advice = recommend(machine, profile)
    assert all(choice.reason for choice in advice.choices.values())
    rows = advice.values["batch_size"] * advice.values["gradient_accumulation"]
    assert rows % advice.values["num_generations"] == 0
    assert 12 <= rows <= 20
    for method in METHODS:
        assert advice.config(method).lora_alpha == 2 * advice.values["lora_r"]


def test_a_gpu_is_used_unless_the_profile_is_for_a_cpu():
    devices = {profile: recommend(SERVER, profile).device for profile in PROFILES}
    assert devices == {"AUTO_DETECT": "cuda", "GPU_ENABLED": "cuda", "RYZEN_OPTIMIZED": "cpu", "CPU_ONLY": "cpu"}
    assert recommend(with_gpu(24, "rocm")).device == "rocm"
    assert recommend(MAC).values["precision"] == "fp32"


def test_a_gpu_profile_without_a_gpu_is_refused_with_what_is_known():
    broken = replace(LAPTOP, notes=("nvidia-smi did not answer within 10 seconds",))
    with pytest.raises(UsageError, match=r"GPU_ENABLED needs a GPU.*nvidia-smi did not answer"):
        recommend(broken, "GPU_ENABLED")


def test_an_unknown_profile_lists_the_known_ones():
    with pytest.raises(UsageError, match="'FAST'; known: AUTO_DETECT, GPU_ENABLED, RYZEN_OPTIMIZED, CPU_ONLY"):
        recommend(LAPTOP, "FAST")


def test_more_memory_takes_a_larger_model():
    sizes = [recommend(with_gpu(gib)).values["model_size"] for gib in (4, 16, 24, 80)]
    assert sizes == sorted(sizes, key=lambda size: float(size.removesuffix("B")))
    assert sizes[-1] == "7B"
    small = recommend(SMALL).choices["model_size"]
    assert small.value == "0.5B"


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("gib", [8, 16, 24, 32, 40, 48, 64, 128])
@pytest.mark.parametrize("cores", [4, 16, 32])
def test_no_profile_takes_a_smaller_model_than_the_careful_one(gib: int, cores: int, bf16: bool):
    machine = replace(RYZEN, ram_total=gib * GIB, cpu_bf16=bf16, physical_cores=cores, usable_cores=2 * cores)
    sizes = [float(recommend(machine, name).values["model_size"][:-1]) for name in ("CPU_ONLY", "RYZEN_OPTIMIZED")]
    assert sizes == sorted(sizes)


def test_a_cpu_is_not_asked_for_more_than_a_night():
    rich = replace(RYZEN, ram_total=256 * GIB)
    assert recommend(rich).values["model_size"] == "1.5B"
    assert recommend(replace(rich, physical_cores=32, usable_cores=64)).values["model_size"] != "1.5B"


def test_what_a_profile_derives_is_a_configuration_of_the_method():
    config = recommend(RYZEN).config("ppo")
    assert (config.mini_batch_size, config.lora_r) == (2, 16)
    assert recommend(RYZEN).config("grpo").num_generations == 6
    assert recommend(SMALL, "CPU_ONLY").config() == preset("cpu").with_overrides(
        {"activation_checkpointing": recommend(SMALL, "CPU_ONLY").values["activation_checkpointing"]}
    )
