from __future__ import annotations

from pathlib import Path

from rl.from_systems.toolbox import HardwareConfig, HardwareProfile, detect_hardware, get_ryzen_optimized_config


def test_the_ryzen_has_the_numbers_that_toolbox_documents():
    config = get_ryzen_optimized_config()
    assert (config.cpu_cores, config.cpu_threads, config.ram_gb, config.available_ram_gb) == (16, 32, 40.0, 32.0)
    assert "5950X" in config.cpu_name
    assert config.profile is HardwareProfile.RYZEN_OPTIMIZED
    assert (config.recommended_batch_size, config.recommended_model_size) == (2, "1.5B")
    assert (config.lora_r, config.lora_alpha, config.num_generations) == (16, 32, 6)
    assert config.gradient_checkpointing is True
    assert config.max_completion_length == 256


def test_a_ryzen_without_bf16_instructions_does_not_pretend_to_have_them():
    config = get_ryzen_optimized_config()
    assert (config.use_bf16, config.use_fp16, config.get_torch_dtype()) == (False, False, "float32")


def test_this_machine_is_described(tmp_path: Path):
    config = detect_hardware(tmp_path / "models")
    assert config.ram_gb >= config.available_ram_gb > 0
    assert config.storage_path == str(tmp_path / "models")
    assert config.storage_free_gb > 0
    assert config.get_training_device() == ("cuda" if config.cuda_available else "cpu")
    assert not (tmp_path / "models").exists()


def test_it_becomes_what_trainers_take():
    config = HardwareConfig(recommended_batch_size=2, gradient_accumulation_steps=4, lora_r=4, lora_alpha=8)
    arguments = config.to_training_args()
    assert (arguments["per_device_train_batch_size"], arguments["gradient_accumulation_steps"]) == (2, 4)
    assert arguments["use_cpu"] is True
    lora = config.to_lora_config()
    assert (lora["r"], lora["lora_alpha"], sorted(lora["target_modules"])) == (
        4,
        8,
        ["k_proj", "o_proj", "q_proj", "v_proj"],
    )
    assert config.to_grpo_config() == {"num_generations": 4, "max_completion_length": 256, "use_vllm": False}
    assert "Batch size: 2 x 4" in config.summary()


def test_profiles_have_toolbox_s_values():
    assert {profile.value for profile in HardwareProfile} == {
        "ryzen_optimized",
        "auto_detect",
        "gpu_enabled",
        "cpu_only",
    }
