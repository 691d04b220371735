import pytest

from rl.config import PPOConfig, preset
from rl.config.automatic import AnswerTraits, settle, settle_warm_up
from tests.config.test_automatic import LARGE, SMALL


def test_what_is_rewarded_while_it_trains_takes_four_prompts_a_step_and_thirty_steps():
    config, reason = settle(preset("auto", "grpo"), "grpo", 80, SMALL)
    assert (config.learning_rate, config.rows_a_step, config.epochs, config.steps(80)) == (5e-4, 32, 2, 40)
    assert (config.train_layers, config.automatic) == (0, ())
    assert reason == (
        "80 rows on a 135M model: 4 prompts with 8 answers each a step, 2 passes (40 steps), learning rate 5e-4"
    )
    few = settle(preset("auto", "grpo"), "grpo", 3, SMALL).config
    assert (few.rows_a_step, few.epochs) == (24, 10)
    assert settle(preset("auto", "grpo"), "grpo", 80, LARGE).config.learning_rate == 8e-5


@pytest.mark.parametrize("rollouts", ["online", "offline"])
def test_groups_of_answers_are_whole_whatever_their_number(rollouts: str):
    given = preset("auto", "grpo").with_overrides({"num_generations": 6, "rollouts": rollouts})
    config = settle(given, "grpo", 80, SMALL).config
    assert (config.batch_size, config.gradient_accumulation, config.rows_a_step) == (4, 6, 24)


def test_agents_take_four_tasks_a_step_at_the_rate_of_other_rewarded_answers():
    config, reason = settle(preset("auto", "agent"), "agent", 60, SMALL)
    assert (config.learning_rate, config.rows_a_step, config.epochs, config.steps(60)) == (5e-4, 32, 2, 30)
    assert "60 rows on a 135M model: 4 tasks with 8 episodes each a step, 2 passes (30 steps)" in reason


def test_what_a_file_says_of_an_agents_training_is_not_chosen():
    given = preset("auto", "agent").with_overrides({"learning_rate": 1e-5, "batch_size": 4, "gradient_accumulation": 1})
    config = settle(given, "agent", 60, SMALL).config
    assert (config.learning_rate, config.rows_a_step) == (1e-5, 4)


def test_ppo_looks_at_the_whole_answer_and_lets_it_move_for_what_a_reward_of_0_to_1_can_give():
    config, reason = settle(preset("auto", "ppo"), "ppo", 81, SMALL)
    assert isinstance(config, PPOConfig)
    assert (config.learning_rate, config.batch_size, config.mini_batch_size, config.rows_a_pass) == (5e-4, 16, 8, 4)
    assert (config.ppo_epochs, config.lam, config.init_kl_coef) == (2, 1.0, 0.02)
    assert (config.epochs, config.steps(81), config.automatic) == (6, 31, ())
    assert reason == "81 rows on a 135M model: 16 answers a step, 6 passes (31 steps), learning rate 5e-4, all layers"
    assert settle(preset("auto", "ppo"), "ppo", 3, SMALL).config.steps(3) == 15, "eighty answers to a prompt"


def test_what_is_given_of_ppo_stays():
    given = {"batch_size": 4, "lam": 0.9, "init_kl_coef": 0.2, "ppo_epochs": 4}
    config = settle(preset("auto", "ppo").with_overrides(given), "ppo", 81, SMALL).config
    assert isinstance(config, PPOConfig)
    assert (config.batch_size, config.mini_batch_size, config.rows_a_pass) == (4, 4, 2)
    assert (config.lam, config.init_kl_coef, config.ppo_epochs) == (0.9, 0.2, 4)
    larger = preset("auto", "ppo").with_overrides({"batch_size": 32, "mini_batch_size": 32})
    assert settle(larger, "ppo", 81, SMALL).config.rows_a_pass == 16


def test_imitation_before_groups_of_answers_takes_its_own_steps():
    config = settle(preset("auto", "agent"), "agent", 60, SMALL).config.with_overrides({"sft_epochs": -1})
    warm_up = settle_warm_up(config, 40, 576, AnswerTraits("structured", 0, ""))
    assert (config.rows_a_step, warm_up.rows_a_step, warm_up.epochs) == (32, 8, 16), "eighty steps of eight"
