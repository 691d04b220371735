import dataclasses

import pytest

from rl.base.errors import UsageError
from rl.config import METHODS, PRESETS, DPOConfig, TrainingConfig, check_overrides, config_class, preset

DEFAULT = TrainingConfig()


def test_the_presets_have_the_documented_numbers():
    default, small, high = map(preset, ("default", "small_gpu", "high_quality"))
    assert (default.lora_r, default.lora_alpha, default.learning_rate, default.beta) == (16, 32, 5e-5, 0.1)
    assert (default.epochs, default.batch_size, default.gradient_accumulation) == (3, 4, 4)
    assert (small.batch_size, small.gradient_accumulation) == (2, 8)
    assert (high.epochs, high.lora_r, high.lora_alpha) == (5, 32, 64)


def test_every_preset_trains_on_the_same_effective_batch():
    assert {config.batch_size * config.gradient_accumulation for config in map(preset, PRESETS)} == {16}


def test_an_unknown_preset_lists_the_known_ones():
    with pytest.raises(UsageError, match="smal_gpu.*default, small_gpu, high_quality, .*, m1_mac, cpu"):
        preset("smal_gpu")


def test_overrides_leave_the_preset_as_it_was():
    changed = preset("default").with_overrides({"epochs": 9})
    assert (changed.epochs, preset("default").epochs) == (9, 3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        DEFAULT.epochs = 9  # type: ignore[misc]


def test_what_is_not_given_is_not_overridden():
    assert preset("default", "kto").with_overrides({"epochs": None}) == DEFAULT


def test_an_unknown_name_is_refused():
    with pytest.raises(UsageError, match="unknown hyper-parameter 'learning_rat'.*; known: .*learning_rate"):
        DEFAULT.with_overrides({"learning_rat": 1e-4})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0),
        ("epochs", float("nan")),
        ("epochs", float("inf")),
        ("epochs", "3"),
        ("epochs", True),
        ("batch_size", 0),
        ("batch_size", 1.5),
        ("learning_rate", 0),
        ("learning_rate", 2),
        ("beta", -1),
        ("lora_r", 0),
        ("lora_dropout", 1),
        ("max_length", 1),
        ("seed", -1),
        ("precision", "fp8"),
        ("warmup_ratio", 1.1),
        ("full", 1),
        ("full", "yes"),
        ("automatic", "epochs"),
        ("automatic", ["lora_r"]),
        ("automatic", [["epochs"]]),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(name, value):
    with pytest.raises(UsageError, match=name):
        TrainingConfig(**{name: value})


def test_all_weights_take_a_tenth_of_the_learning_rate_of_an_adapter():
    full = preset("production").with_overrides({"full": True})
    assert full.learning_rate == pytest.approx(2.5e-6)
    assert full.with_overrides({"full": True, "epochs": 1}).learning_rate == full.learning_rate
    assert DEFAULT.with_overrides({"full": True, "learning_rate": 1e-4}).learning_rate == 1e-4
    assert DEFAULT.with_overrides({"full": False}) == DEFAULT


def test_weights_that_are_trained_are_not_quantised():
    with pytest.raises(UsageError, match="weights in 4 bits cannot be trained"):
        DEFAULT.with_overrides({"full": True, "quantize_base": "4bit"})
    constrained = preset("memory_constrained")
    assert (constrained.quantization, constrained.with_overrides({"full": True}).quantization) == ("auto", "none")


def test_a_config_survives_its_own_dictionary():
    assert TrainingConfig(**DEFAULT.as_dict()) == DEFAULT


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_suits_every_method(method: str, name: str):
    config = preset(name, method)
    assert type(config) is config_class(method)
    assert config_class(method)(**config.as_dict()) == config


@pytest.mark.parametrize(
    ("method", "name", "value"),
    [
        ("dpo", "label_smoothing", 0.5),
        ("dpo", "label_smoothing", 0.1),  # which sigmoid does not read
        ("dpo", "preference_loss", "sigmod"),
        ("dpo", "preference_loss", "sft,sft"),
        ("dpo", "preference_loss", "sft:-1"),
        ("dpo", "preference_loss", "sft:much"),
        ("grpo", "num_generations", 1),
        ("grpo", "loss_type", "ppo"),
        ("grpo", "rollouts", "both"),
        ("grpo", "top_p", 0),
        ("agent", "async_rollout_workers", 65),
        ("agent", "async_rollout_workers", 1.5),
        ("agent", "eval_tasks", 0),
        ("agent", "policy_type", "hermes"),
        ("agent", "device", "gpu"),
        ("agent", "rollouts", "offline"),
        ("ppo", "gamma", 1.1),
        ("ppo", "mini_batch_size", 9),
        ("ppo", "max_steps", 0),
        ("ppo", "top_k", 0.5),
    ],
)
def test_a_value_that_cannot_be_meant_for_a_method_is_refused(method: str, name: str, value: object):
    with pytest.raises(UsageError, match=name):
        config_class(method)().with_overrides({name: value})


def test_overrides_may_be_for_any_method_but_not_for_none():
    check_overrides({"target_kl": 3, "num_generations": 6, "beta": 0.2})
    with pytest.raises(UsageError, match="unknown hyper-parameter 'targt_kl'"):
        check_overrides({"targt_kl": 3})
    with pytest.raises(UsageError, match="target_kl must be"):
        check_overrides({"target_kl": -3})


def test_an_unknown_method_lists_the_known_ones():
    with pytest.raises(UsageError, match="'magic'; known: mpo, sft, dpo, kto, grpo, agent, ppo, reward_model"):
        preset("default", "magic")


def test_what_is_given_is_not_chosen_any_more():
    auto = preset("auto")
    assert {"epochs", "learning_rate", "train_layers", "label_smoothing"} <= set(auto.automatic)
    given = auto.with_overrides({"learning_rate": 1e-4, "epochs": None})
    assert set(auto.automatic) - set(given.automatic) == {"learning_rate"}
    assert "learning_rate" in auto.with_overrides({"full": True}).automatic, "a tenth of what will be chosen"
    assert preset("default", "ppo").automatic == ()


def test_losses_have_weights():
    mixed = DPOConfig(preference_loss="sigmoid:1, sft:0.2,hinge")
    assert mixed.losses == {"sigmoid": 1, "sft": 0.2, "hinge": 1}
    with pytest.raises(UsageError, match="preference_loss: unknown loss 'sigmod' .did you mean sigmoid"):
        DPOConfig(preference_loss="sigmod:1,sft:0.2")


def test_a_loss_that_would_mean_something_else_is_refused():
    with pytest.raises(UsageError, match="exo_pair takes the logarithm of label_smoothing"):
        DPOConfig().with_overrides({"preference_loss": "exo_pair", "label_smoothing": 0.0})
    with pytest.raises(UsageError, match="aot sorts the pairs of a forward pass: batch_size must be at least 2"):
        DPOConfig(preference_loss="aot", batch_size=1)
    assert DPOConfig(preference_loss="aot", batch_size=2).with_smaller_passes() is None
    assert (DPOConfig(preference_loss="exo_pair").smoothing, DPOConfig(preference_loss="robust").smoothing) == (
        0.001,
        0.1,
    )
