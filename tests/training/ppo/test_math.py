"""Every expected number is worked out beside it."""

import math
from typing import Any

import pytest
import torch

from rl.training.ppo import math as ppo_math

pytestmark = pytest.mark.learn


@pytest.fixture(scope="module")
def of() -> Any:
    return ppo_math


def tensor(*rows: Any) -> Any:
    return torch.tensor(rows, dtype=torch.float64)


def numbers(values: Any) -> list[float]:
    return values.flatten().tolist()


def test_the_weight_of_the_penalty_rises_above_the_target_and_falls_below_it(of: Any):
    controller = of.KLController(coefficient=0.2, target=6.0, horizon=100)
    controller.update(6.6, answers=10)  # error 6.6 / 6 - 1 = 0.1; 0.2 * (1 + 0.1 * 10 / 100)
    assert controller.coefficient == pytest.approx(0.202)
    controller.update(60.0, answers=10)  # error 9, clipped to 0.2; 0.202 * (1 + 0.2 * 10 / 100)
    assert controller.coefficient == pytest.approx(0.202 * 1.02)
    controller.update(0.0, answers=50)  # error -1, clipped to -0.2; times 1 - 0.2 * 50 / 100
    assert controller.coefficient == pytest.approx(0.202 * 1.02 * 0.9)


def test_a_target_of_nothing_leaves_the_weight_alone(of: Any):
    controller = of.KLController(coefficient=0.2, target=0.0, horizon=100)
    controller.update(50.0, answers=10)
    assert controller.coefficient == 0.2


def test_the_mean_counts_the_tokens_of_answers_only(of: Any):
    assert of.masked_mean(tensor([1, 2, 99]), tensor([1, 1, 0])).item() == 1.5
    assert of.masked_mean(tensor([1, 2, 99]), tensor([0, 0, 0])).item() == 0


def test_whitening_gives_mean_0_and_variance_1_over_the_tokens(of: Any):
    # 1, 3, 5: mean 3, variance of a sample (4 + 0 + 4) / 2 = 4, deviation 2
    white = of.whiten(tensor([1, 3], [5, 99]), tensor([1, 1], [1, 0]))
    assert numbers(white) == pytest.approx([-1, 0, 1, 0])


def test_whitening_one_token_gives_0(of: Any):
    assert numbers(of.whiten(tensor([7, 99]), tensor([1, 0]))) == [0, 0]


def test_the_score_comes_at_the_last_token_and_the_penalty_at_each(of: Any):
    mask = tensor([1, 1, 1], [1, 0, 0])
    kl = of.token_kl(tensor([-1, -2, -3], [-1, 0, 0]), tensor([-1.5, -1, -3], [-3, -9, -9]), mask)
    assert numbers(kl) == [0.5, -1, 0, 2, 0, 0]
    rewards = of.token_rewards(tensor(1, 0.5), kl, mask, 0.1)
    # -0.1 * 0.5, -0.1 * -1, 1 - 0; and 0.5 - 0.1 * 2, then padding
    assert numbers(rewards) == pytest.approx([-0.05, 0.1, 1, 0.3, 0, 0])


def test_advantages_look_ahead_to_the_end_of_the_answer_and_no_further(of: Any):
    rewards, values = tensor([0, 0, 1], [0, 1, 0]), tensor([0.5, 0.4, 0.8], [0.2, 0.6, 50])
    estimate = of.generalised_advantages(rewards, values, tensor([1, 1, 1], [1, 1, 0]), gamma=0.9, lam=0.5)
    # first answer: deltas 0 + 0.9 * 0.4 - 0.5 = -0.14; 0 + 0.9 * 0.8 - 0.4 = 0.32; 1 - 0.8 = 0.2
    # with gamma * lam = 0.45: third 0.2; second 0.32 + 0.45 * 0.2 = 0.41; first -0.14 + 0.45 * 0.41 = 0.0445
    # second answer: deltas 0.9 * 0.6 - 0.2 = 0.34; 1 - 0.6 = 0.4 (the 50 is padding); first 0.34 + 0.45 * 0.4 = 0.52
    assert numbers(estimate.advantages) == pytest.approx([0.0445, 0.41, 0.2, 0.52, 0.4, 0])
    assert numbers(estimate.returns) == pytest.approx([0.5445, 0.81, 1, 0.72, 1, 0])


def test_with_gamma_and_lambda_1_the_return_is_the_sum_of_what_follows(of: Any):
    estimate = of.generalised_advantages(tensor([1, 2, 3]), tensor([9, 9, 9]), tensor([1, 1, 1]), 1.0, 1.0)
    assert numbers(estimate.returns) == [6, 5, 3]


def test_the_policy_gains_nothing_beyond_the_clip(of: Any):
    new, old = tensor([math.log(1.5), math.log(0.5), math.log(1.5), 7]), tensor([0, 0, 0, 0])
    clipped = of.policy_loss(new, old, tensor([1, 1, -1, 5]), tensor([1, 1, 1, 0]), 0.2)
    # ratio 1.5, advantage 1: max(-1.5, -1.2) = -1.2, clipped; 0.5 and 1: max(-0.5, -0.8) = -0.5;
    # 1.5 and -1: max(1.5, 1.2) = 1.5; the last is padding: (-1.2 - 0.5 + 1.5) / 3
    assert clipped.loss.item() == pytest.approx(-0.2 / 3)
    assert clipped.fraction.item() == pytest.approx(1 / 3)


def test_a_clipped_token_has_no_gradient(of: Any):
    new = tensor([math.log(1.5), math.log(1.1)]).requires_grad_()
    of.policy_loss(new, tensor([0, 0]), tensor([1, 1]), tensor([1, 1]), 0.2).loss.backward()
    assert numbers(new.grad) == pytest.approx([0, -1.1 / 2])  # d(-ratio)/d(log-prob) = -ratio, over two tokens


def test_a_value_is_not_paid_for_moving_beyond_the_clip(of: Any):
    clipped = of.value_loss(tensor([1, 0.1, 5]), tensor([0, 0, 0]), tensor([1, 1, 0]), tensor([1, 1, 0]), 0.2)
    # 1 -> clipped to 0.2: max(0, 0.8²) = 0.64, clipped; 0.1 stays: 0.9² = 0.81; half the mean: (0.64 + 0.81) / 4
    assert clipped.loss.item() == pytest.approx(1.45 / 4)
    assert clipped.fraction.item() == 0.5


def test_entropy_of_a_fair_coin_is_the_logarithm_of_2(of: Any):
    assert numbers(of.entropy(tensor([[0, 0], [0, 50]]))) == pytest.approx([math.log(2), 0], abs=1e-9)


def test_explained_variance_is_1_for_perfect_values_and_0_for_a_constant(of: Any):
    returns, mask = tensor([1, 2, 3, 99]), tensor([1, 1, 1, 0])
    assert of.explained_variance(tensor([1, 2, 3, 0]), returns, mask) == 1
    assert of.explained_variance(tensor([2, 2, 2, 0]), returns, mask) == 0
    # errors 0, 1, 0 around their mean 1/3: (1/9 + 4/9 + 1/9) = 2/3 of a spread of 2
    assert of.explained_variance(tensor([1, 1, 3, 0]), returns, mask) == pytest.approx(1 - (2 / 3) / 2)
    assert of.explained_variance(returns, tensor([2, 2, 2, 2]), mask) == 0
