import dataclasses
from typing import NamedTuple

import pytest

from rl.config import DPOConfig, MPOConfig, preset
from rl.config.automatic import AnswerTraits, Repeats, describe_losses, imitates, settle


class Shape(NamedTuple):
    parameters: int
    layers: int
    hidden_size: int


SMALL, LARGE = Shape(134_515_008, 30, 576), Shape(7_600_000_000, 28, 3584)


def test_few_rows_on_a_small_model_get_what_was_measured_there():
    config, reason = settle(preset("auto"), "dpo", 39, SMALL)
    assert (config.learning_rate, config.rows_a_step, config.train_layers, config.lora_dropout) == (2e-4, 4, 10, 0)
    assert (config.epochs, config.steps(39), config.automatic) == (6, 60, ())
    assert reason == (
        "39 rows on a 135M model: 4 rows a step, 6 passes (60 steps), learning rate 2e-4, the top 10 of 30 layers"
    )


@pytest.mark.parametrize(
    ("rows", "rows_a_step", "epochs"),
    [(5, 4, 10), (24, 4, 10), (240, 4, 2), (300, 8, 2), (999, 8, 2), (1000, 8, 1), (1025, 16, 1), (50_000, 16, 1)],
)
def test_there_are_sixty_steps_where_the_rows_allow(rows: int, rows_a_step: int, epochs: float):
    config = settle(preset("auto"), "kto", rows, SMALL).config
    assert (config.rows_a_step, config.epochs) == (rows_a_step, epochs)
    assert config.steps(rows) >= 60 or epochs == 10


def test_many_rows_train_every_layer_with_dropout():
    config, reason = settle(preset("auto"), "dpo", 2000, LARGE)
    assert (config.train_layers, config.lora_dropout, config.learning_rate) == (0, 0.05, 3.2e-5)
    assert "2,000 rows on a 7.6B model: 16 rows a step, 1 pass (125 steps), learning rate 3.2e-5, all layers" in reason


def test_all_weights_take_a_tenth_of_the_rate_and_every_layer():
    config = settle(preset("auto").with_overrides({"full": True}), "dpo", 39, SMALL).config
    assert (config.learning_rate, config.train_layers) == (2e-5, 0)


def test_a_reward_model_bears_five_times_the_rate():
    rates = [
        settle(preset("auto", "reward_model"), "reward_model", 39, size).config.learning_rate for size in (SMALL, LARGE)
    ]
    assert rates == [1e-3, 1.6e-4]


def test_what_was_given_stays_and_the_rest_goes_with_it():
    given = preset("auto").with_overrides({"batch_size": 2, "learning_rate": 1e-4, "train_layers": 0})
    config, reason = settle(given, "dpo", 39, SMALL)
    assert (config.batch_size, config.gradient_accumulation, config.learning_rate) == (2, 2, 1e-4)
    assert (config.train_layers, "layers" in reason, "learning rate" in reason) == (0, False, False)
    passes = preset("auto", "kto").with_overrides({"gradient_accumulation": 4})
    assert settle(passes, "kto", 39, SMALL).config.batch_size == 2, "KTO compares the rows of a pass"


def test_without_the_size_of_the_model_what_depends_on_it_keeps_its_default():
    config, reason = settle(preset("auto"), "dpo", 39, None)
    assert (config.learning_rate, config.train_layers, config.epochs) == (5e-5, 0, 6)
    assert "learning_rate and train_layers as usual, since the model's size is not known here" in reason


def test_a_preset_that_says_its_numbers_keeps_them():
    config, reason = settle(preset("small_gpu"), "dpo", 39, SMALL)
    assert (dataclasses.replace(preset("small_gpu"), automatic=()), "") == (config, reason)


def test_robust_takes_its_flip_rate_from_repeats_when_there_are_some():
    robust = DPOConfig(preference_loss="robust")
    measured, reason = settle(robust, "dpo", 39, SMALL, Repeats(20, 0.21))
    assert (measured.label_smoothing, reason) == (0.21, "label_smoothing 0.21, from 20 repeated ratings")
    guessed, reason = settle(robust, "dpo", 39, SMALL, Repeats(19, 0.21))
    assert guessed.label_smoothing == 0.1
    assert reason == "label_smoothing 0.1, a guess: 19 repeated ratings, and 20 would measure it"
    given = robust.with_overrides({"label_smoothing": 0.0})
    assert settle(given, "dpo", 39, SMALL, Repeats(20, 0.21)).config.label_smoothing == 0


def test_losses_in_words():
    assert describe_losses(DPOConfig()) == "sigmoid"
    assert describe_losses(DPOConfig(preference_loss="sigmoid,sft:0.2")) == "sigmoid and 0.2 of sft"
    assert describe_losses(DPOConfig(preference_loss="robust")) == "robust with label_smoothing 0.1"


def test_a_closed_set_is_imitated_at_a_high_rate_in_steps_and_not_in_passes():
    answers = AnswerTraits("closed", 3, "30 accepted answers are 3 distinct ones")
    config, reason = settle(preset("auto", "mpo"), "mpo", 30, SMALL, answers=answers)
    assert isinstance(config, MPOConfig)
    assert (config.preferences, config.learning_rate, config.rows_a_step) == (False, 1e-3, 8)
    assert config.steps(30) >= 40
    assert reason.startswith(
        "answers are closed (30 accepted answers are 3 distinct ones): accepted ones are imitated, "
        "and preferences are left out"
    )


def test_each_answer_of_a_set_wants_steps_and_many_rows_want_passes():
    many = settle(preset("auto", "sft"), "sft", 100, SMALL, answers=AnswerTraits("closed", 20, "")).config
    assert many.steps(100) >= 6 * 20
    rows = settle(preset("auto", "sft"), "sft", 900, SMALL, answers=AnswerTraits("closed", 2, "")).config
    assert rows.epochs == 4
    more = settle(preset("auto", "sft"), "sft", 1000, SMALL, answers=AnswerTraits("closed", 2, "")).config
    assert more.epochs == 2


def test_steps_are_those_of_the_accepted_answers_however_many_others_there_are():
    answers = AnswerTraits("closed", 2, "", rows=40)
    config, reason = settle(preset("auto", "mpo"), "mpo", 1000, SMALL, answers=answers)
    assert config.steps(40) >= 40
    assert "40 rows on a" in reason
    preferring = preset("auto", "mpo").with_overrides({"preferences": True})
    assert "1,000 rows on a" in settle(preferring, "mpo", 1000, SMALL, answers=answers).reason


def test_a_structure_is_learned_by_all_layers_in_more_steps():
    answers = AnswerTraits("structured", 0, "all are JSON")
    config = settle(preset("auto", "sft"), "sft", 40, SMALL, answers=answers).config
    assert (config.train_layers, config.learning_rate) == (0, 1e-3)
    assert config.steps(40) >= 80
    assert settle(preset("auto", "sft"), "sft", 900, SMALL, answers=answers).config.epochs == 6


def test_free_answers_are_imitated_at_a_third_of_the_rate_and_for_ten_passes_at_most():
    config = settle(preset("auto", "sft"), "sft", 39, SMALL).config
    assert (config.learning_rate, config.rows_a_step, config.epochs, config.train_layers) == (3e-4, 8, 10, 10)
    assert settle(preset("auto", "sft"), "sft", 900, SMALL).config.epochs == 2


def test_free_answers_leave_mpo_its_preferences_and_its_numbers():
    config, reason = settle(preset("auto", "mpo"), "mpo", 39, SMALL, answers=AnswerTraits("free", 0, "they differ"))
    assert isinstance(config, MPOConfig)
    assert (config.preferences, config.learning_rate, config.rows_a_step) == (True, 3e-4, 4)
    assert "answers are" not in reason


def test_preferences_that_were_given_stay_whatever_the_answers_are():
    answers = AnswerTraits("closed", 3, "few are distinct")
    trained = settle(preset("auto", "mpo").with_overrides({"preferences": True}), "mpo", 30, SMALL, answers=answers)
    assert trained.config.preferences
    assert (trained.config.rows_a_step, "imitated" in trained.reason) == (4, False)
    left_out = preset("auto", "mpo").with_overrides({"preferences": False})
    config = settle(left_out, "mpo", 39, SMALL, answers=AnswerTraits("free", 0, "")).config
    assert (config.preferences, config.learning_rate, config.rows_a_step) == (False, 3e-4, 8)


def test_who_imitates():
    assert all(imitates(preset("auto", "sft"), "sft", kind) for kind in ("closed", "structured", "free"))
    assert [imitates(preset("auto", "mpo"), "mpo", kind) for kind in ("closed", "structured", "free")] == [1, 1, 0]
    assert not imitates(preset("default", "mpo"), "mpo", "closed")
    assert not imitates(preset("auto", "dpo"), "dpo", "closed")


def test_imitation_of_a_large_model_takes_a_smaller_rate_and_all_weights_a_tenth():
    answers = AnswerTraits("closed", 3, "")
    assert settle(preset("auto", "sft"), "sft", 30, LARGE, answers=answers).config.learning_rate == 1.6e-4
    full = preset("auto", "sft").with_overrides({"full": True})
    assert settle(full, "sft", 30, SMALL, answers=answers).config.learning_rate == 1e-4
