from dataclasses import replace

import pytest

from rl.config import METHODS, preset
from rl.hardware import GIB, Gpu, ModelShape, Part, Speed, Workload, assumed_speed, estimate
from rl.hardware.speed import TIMED_TOKENS
from tests.hardware.machines import HALF_BILLION, LAPTOP, SERVER

SMALL = ModelShape(parameters=134_515_008, layers=30, hidden_size=576, vocab_size=49_152)
TIMED = Speed(
    forward=1e-4,
    training=2e-4,
    generation=3e-4,
    head=1e-3,
    head_training=2e-3,
    start=5.0,
    kept_bytes=50_000.0,
    runtime_bytes=500_000_000,
    prompt_tokens=31,
    system_tokens=15,
    measured=True,
)
"""Seconds a token and layer, or a token of an answer."""


def work(rows: int, tokens: float, **more) -> Workload:
    return Workload(**{"rows": rows, "tokens": tokens, "answer_tokens": tokens / 2, **more})


def cost_of(rows: int, tokens: float, method: str = "dpo", machine=LAPTOP, name: str = "cpu", **overrides):
    config = preset(name, method).with_overrides(overrides)
    return estimate(work(rows, tokens), HALF_BILLION, config, machine, method)


def parts_of(method: str = "dpo", model: ModelShape = SMALL, *, rows: int = 40, overrides=None, **more):
    """Seconds of each part of a run on texts of TIMED_TOKENS, half of each an answer."""
    config = preset("cpu", method).with_overrides({"epochs": 2, "sft_epochs": 0, **(overrides or {})})
    return estimate(work(rows, TIMED_TOKENS, **more), model, config, LAPTOP, method, TIMED).parts


def test_steps_are_counted_as_the_trainer_counts_them():
    overrides = {"batch_size": 4, "gradient_accumulation": 4, "epochs": 3}
    assert cost_of(100, 200, **overrides).steps == 21  # 25 batches: 7 steps an epoch
    assert cost_of(0, 200, **overrides).steps == 0


def test_the_time_is_the_sum_of_the_parts():
    config = preset("cpu").with_overrides({"epochs": 2})
    whole = work(40, TIMED_TOKENS, heldout_rows=10, asked_prompts=10, asked_tokens=50, exports=True)
    cost = estimate(whole, SMALL, config, LAPTOP, "dpo", TIMED)
    assert list(cost.parts) == [
        part.value for part in Part if part not in (Part.WEIGHING, Part.IMITATION, Part.SAMPLES, Part.FOLDS)
    ]
    assert cost.seconds == pytest.approx(sum(cost.parts.values()))
    assert cost.measured


def test_a_step_is_a_forward_and_a_backward_pass_of_both_answers_and_of_their_head():
    answer = TIMED_TOKENS / 2
    assert parts_of()["steps"] == pytest.approx(
        2 * 40 * 2 * (TIMED_TOKENS * 30 * 2e-4 + answer * 2e-3)  # epochs, rows, answers
    )
    assert parts_of()["reference"] == pytest.approx(40 * 2 * (TIMED_TOKENS * 30 * 1e-4 + answer * 1e-3))


def test_in_a_single_epoch_the_reference_is_scored_within_the_steps():
    once = parts_of(overrides={"epochs": 1})
    assert "reference" not in once
    assert once["steps"] == pytest.approx(parts_of()["steps"] / 2 + parts_of()["reference"])


def test_layers_below_the_lowest_adapter_run_once_a_text():
    few = parts_of(overrides={"train_layers": 10})
    assert few["reference"] == parts_of()["reference"]
    saved = 2 * 40 * 2 * TIMED_TOKENS * 20 * 2e-4
    assert parts_of()["steps"] - few["steps"] == pytest.approx(saved)
    once = parts_of(overrides={"train_layers": 10, "epochs": 1})
    every = parts_of(overrides={"train_layers": 10, "epochs": 1, "activation_checkpointing": True})
    trunk = 40 * 2 * TIMED_TOKENS * 20 * 1e-4
    assert once["steps"] == pytest.approx(40 * 2 * (TIMED_TOKENS * 10 * 3e-4 + 64 * 3e-3) + trunk)
    assert every["steps"] > once["steps"] + trunk


def test_texts_are_padded_to_the_longest_of_a_pass():
    assert parts_of(longest=2 * TIMED_TOKENS)["steps"] > 1.6 * parts_of()["steps"]
    assert parts_of(longest=2 * TIMED_TOKENS)["reference"] == parts_of()["reference"]  # sorted by length


def test_a_large_vocabulary_takes_its_share_of_a_small_model():
    slower = replace(TIMED, head=2e-3, head_training=4e-3)
    config = preset("cpu").with_overrides({"epochs": 2})
    less, more = (
        estimate(work(40, TIMED_TOKENS), SMALL, config, LAPTOP, "dpo", one).parts["steps"] for one in (TIMED, slower)
    )
    assert more - less == pytest.approx(2 * 40 * 2 * TIMED_TOKENS / 2 * 2e-3)


def test_every_model_that_is_compared_scores_the_held_out_pairs_and_answers():
    two, three = (parts_of(heldout_rows=10, asked_prompts=16, asked_tokens=100, models=models) for models in (2, 3))
    assert two["evaluation"] == pytest.approx(10 * 2 * 2 * (TIMED_TOKENS * 30 * 1e-4 + 64 * 1e-3))
    assert three["evaluation"] == pytest.approx(1.5 * two["evaluation"])
    assert three["fresh answers"] - two["fresh answers"] == pytest.approx(
        16 * (64 * 30 * 1e-4 + 100 * (30 * 3e-4 + 1e-3))  # the prompt is read, then 100 tokens are made
    )


def test_what_is_not_asked_for_costs_nothing():
    assert set(parts_of()) == {"start-up", "loading the model", "reference", "steps"}
    assert parts_of(exports=True)["export"] > parts_of(exports=True, model=replace(SMALL, parameters=10**8))["export"]


def test_a_judge_before_the_training_loads_the_model_once_more_and_runs_half_of_the_layers():
    without, weighing = parts_of("mpo"), parts_of("mpo", weighed_rows=40)
    assert weighing["weighing the ratings"] == pytest.approx(40 * 2 * (TIMED_TOKENS * 30 * 1e-4 + 64 * 1e-3) / 2)
    assert weighing["loading the model"] == 2 * without["loading the model"]
    assert "weighing the ratings" not in without


def test_what_is_generated_while_training_is_counted():
    overrides = {"epochs": 1, "num_generations": 4}
    stored, made = (
        parts_of("grpo", overrides={**overrides, "rollouts": how})["steps"] for how in ("offline", "online")
    )
    generated = 40 * 4 * (64 * 30 * 1e-4 + 64 * (30 * 3e-4 + 1e-3))
    assert made - stored == pytest.approx(generated)


def test_rows_longer_than_the_limit_are_cut():
    config = preset("cpu").with_overrides({"max_length": 128})
    cut = estimate(work(50, 10_000), HALF_BILLION, config, LAPTOP)
    assert cut.seconds == pytest.approx(
        estimate(work(50, 128, answer_tokens=5000), HALF_BILLION, config, LAPTOP).seconds
    )


def test_a_gpu_is_faster_and_holds_the_weights_in_two_bytes():
    config = preset("default")
    fast, slow = (estimate(work(500, 300), HALF_BILLION, config, machine) for machine in (SERVER, LAPTOP))
    assert fast.parts["steps"] < slow.parts["steps"] / 100
    assert 494e6 * 2 < fast.peak_memory_bytes < slow.peak_memory_bytes
    assert not fast.measured
    unknown = replace(SERVER, gpus=(Gpu("Some other card", 24 * GIB, 24 * GIB, "1"),))
    assert estimate(work(500, 300), HALF_BILLION, config, unknown).seconds > fast.seconds


def test_bf16_is_faster_where_the_processor_has_it():
    half, whole = (assumed_speed(HALF_BILLION, LAPTOP, half).training for half in (True, False))
    assert half == pytest.approx(whole / 1.5)


def test_activation_checkpointing_saves_memory():
    memory, less = (
        cost_of(10, 1000, machine=SERVER, name="default", batch_size=8, activation_checkpointing=saved)
        for saved in (False, True)
    )
    assert less.memory["a training pass"] < memory.memory["a training pass"]
    assert less.peak_memory_bytes < memory.peak_memory_bytes


def test_only_layers_that_are_trained_keep_activations():
    config = preset("cpu").with_overrides({"batch_size": 8})
    few = config.with_overrides({"train_layers": 10})
    all_layers, top = (
        estimate(work(10, 500), SMALL, c, LAPTOP, "dpo", TIMED).memory["a training pass"] for c in (config, few)
    )
    assert all_layers - top == pytest.approx(2 * 16 * 500 * 20 * 50_000)


def test_guards_hold_the_logits_of_two_models():
    config = preset("cpu")
    without, within = (
        estimate(work(10, 40, asked_prompts=count), SMALL, config, LAPTOP, "dpo", TIMED) for count in (0, 4)
    )
    assert without.memory["fresh answers"] == 0
    assert within.memory["fresh answers"] > 2 * 2**25 * 4


def test_all_weights_take_sixteen_bytes_each_and_a_gradient_of_their_own():
    adapter, whole = (cost_of(50, 200, full=full) for full in (False, True))
    assert whole.peak_memory_bytes > 494e6 * 16
    assert whole.peak_memory_bytes - adapter.peak_memory_bytes == pytest.approx(494e6 * 12, rel=0.05)
    assert whole.parts["steps"] > 1.3 * adapter.parts["steps"]


def test_grpo_of_all_weights_keeps_a_reference_beside_them_unless_nothing_is_held_near_it():
    more = cost_of(50, 200, "grpo", full=True)
    less = cost_of(50, 200, "grpo", full=True, beta=0.0)
    assert more.peak_memory_bytes - less.peak_memory_bytes == pytest.approx(494e6 * 4, rel=0.01)


def test_no_tokens_is_a_mistake():
    with pytest.raises(ValueError, match="rows of 0 tokens"):
        cost_of(10, 0)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_estimated(method):
    cost = estimate(work(100, 200, heldout_rows=10), HALF_BILLION, preset("cpu", method), LAPTOP, method)
    assert cost.steps > 0
    assert all(seconds > 0 for seconds in cost.parts.values())
    assert cost.parts["steps"] > cost.parts["evaluation"]


def test_most_steps_end_a_run_early():
    whole, short = cost_of(320, 200), cost_of(320, 200, max_steps=2)
    assert (whole.steps, short.steps) == (60, 2)
    assert short.parts["steps"] == pytest.approx(whole.parts["steps"] / 30)
    assert short.parts["reference"] == whole.parts["reference"]


def test_grpo_trains_on_groups():
    few, many = (cost_of(40, 200, "grpo", num_generations=answers, epochs=1) for answers in (4, 8))
    assert few.steps == 10  # 16 answers a step: 4 prompts
    assert many.parts["steps"] == pytest.approx(2 * few.parts["steps"])


def test_ppo_trains_on_each_batch_several_times():
    once, twice = (cost_of(80, 200, "ppo", max_steps=3, ppo_epochs=passes) for passes in (1, 2))
    assert once.steps == 3
    assert once.parts["steps"] < twice.parts["steps"] < 2 * once.parts["steps"]


def test_four_bits_hold_the_weights_in_less_memory(monkeypatch):
    monkeypatch.setattr("rl.hardware.precision.importlib.util.find_spec", lambda name: object())
    plain, small = (
        cost_of(10, 100, machine=SERVER, name="default", quantize_base=how).peak_memory_bytes
        for how in ("none", "4bit")
    )
    assert small < plain


def test_the_next_estimate_is_scaled_part_by_part():
    cost = estimate(work(40, 100), SMALL, preset("cpu"), LAPTOP, "dpo", TIMED)
    scaled = cost.scale({"steps": 2.0}, 1.5)
    assert scaled.seconds == pytest.approx(cost.seconds + cost.parts["steps"])
    assert scaled.peak_memory_bytes == round(1.5 * cost.peak_memory_bytes)


@pytest.mark.parametrize(
    "values", [None, {}, {"forward": 1}, {**TIMED.as_dict(), "head": 0}, {**TIMED.as_dict(), "head": "1"}]
)
def test_what_is_not_a_speed_is_refused(values):
    with pytest.raises(ValueError, match="speed"):
        Speed.from_dict(values)


def test_a_speed_is_read_as_it_was_written():
    assert Speed.from_dict(TIMED.as_dict()) == TIMED


def test_each_training_without_a_part_costs_as_much_as_its_rows_and_its_answers():
    name = "answers to prompts not learned"
    assert name not in parts_of("sft")
    half = parts_of("sft", folds=1, tested_prompts=20, tested_share=0.5)
    assert half["steps"] == parts_of("sft")["steps"]
    few = parts_of("sft", rows=20)["steps"]
    assert few < half[name] < parts_of("sft")["steps"] + few
    all_of_them = parts_of("sft", folds=3, tested_prompts=40, tested_share=1.0)
    assert all_of_them[name] > 3 * parts_of("sft", rows=27)["steps"]
