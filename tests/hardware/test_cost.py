from __future__ import annotations

from dataclasses import replace

import pytest

from rl.config import METHODS, preset
from rl.hardware import GIB, Gpu, estimate
from tests.hardware.machines import HALF_BILLION, LAPTOP, SERVER


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


def test_all_weights_take_sixteen_bytes_each_and_a_gradient_of_their_own():
    config = preset("cpu")
    full = config.with_overrides({"full": True})
    adapter, whole = (estimate(50, 200, HALF_BILLION, one, LAPTOP) for one in (config, full))
    assert whole.peak_memory_bytes > 494e6 * 16
    assert whole.peak_memory_bytes - adapter.peak_memory_bytes == pytest.approx(494e6 * 12, rel=0.05)
    assert whole.seconds == pytest.approx(adapter.seconds * 8 / 6)


def test_grpo_of_all_weights_keeps_a_reference_beside_them_unless_nothing_is_held_near_it():
    held = preset("cpu", "grpo").with_overrides({"full": True})
    free = held.with_overrides({"beta": 0.0})
    more, less = (estimate(50, 200, HALF_BILLION, one, LAPTOP, "grpo").peak_memory_bytes for one in (held, free))
    assert more - less == pytest.approx(494e6 * 4, rel=0.01)


def test_no_tokens_is_a_mistake():
    with pytest.raises(ValueError, match="rows of 0 tokens"):
        estimate(10, 0, HALF_BILLION, preset("cpu"), LAPTOP)


def test_every_method_can_be_estimated():
    for method in METHODS:
        found = estimate(100, 200, HALF_BILLION, preset("cpu", method), LAPTOP, method)
        assert found.steps > 0
        assert found.seconds > 0


def test_most_steps_end_a_run_early():
    config = preset("cpu").with_overrides({"max_steps": 2})
    whole, short = (estimate(320, 200, HALF_BILLION, one, LAPTOP) for one in (preset("cpu"), config))
    assert (whole.steps, short.steps) == (60, 2)
    assert short.seconds == pytest.approx(whole.seconds / 30)


def test_grpo_trains_on_groups():
    config = preset("cpu", "grpo").with_overrides({"num_generations": 4, "epochs": 1})
    assert estimate(40, 200, HALF_BILLION, config, LAPTOP, "grpo").steps == 10  # 16 answers a step: 4 prompts
    more = config.with_overrides({"num_generations": 8})
    few, many = (estimate(40, 200, HALF_BILLION, one, LAPTOP, "grpo").seconds for one in (config, more))
    assert many == pytest.approx(2 * few)


def test_ppo_trains_on_each_batch_several_times():
    config = preset("cpu", "ppo").with_overrides({"max_steps": 3, "ppo_epochs": 1})
    once, twice = (
        estimate(80, 200, HALF_BILLION, config.with_overrides({"ppo_epochs": passes}), LAPTOP, "ppo").seconds
        for passes in (1, 2)
    )
    assert estimate(80, 200, HALF_BILLION, config, LAPTOP, "ppo").steps == 3
    assert once < twice < 2 * once


def test_four_bits_hold_the_weights_in_less_memory(monkeypatch):
    monkeypatch.setattr("rl.hardware.four_bit.importlib.util.find_spec", lambda name: object())
    config = preset("default")
    plain, small = (
        estimate(10, 100, HALF_BILLION, config.with_overrides({"quantize_base": how}), SERVER).peak_memory_bytes
        for how in ("none", "4bit")
    )
    assert small < plain
