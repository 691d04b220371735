"""Expected values are worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from rl.training.reward_model import Batches, metrics, reward_loss, sides, sums

pytestmark = pytest.mark.learn

NUMBERS, SCORES = torch.tensor([2.0, 0.0, 1.0, 0.5, -1.0]), torch.tensor([0.75])
"""Of two pairs (2 against 1, 0 against 0.5) and of one answer (-1)."""


def test_numbers_are_cut_into_sides():
    of = sides(NUMBERS, SCORES)
    assert [part.tolist() for part in of] == [[2.0, 0.0], [1.0, 0.5], [-1.0]]
    assert [len(part) for part in sides(NUMBERS[:4], SCORES[:0])] == [2, 2, 0]
    assert [len(part) for part in sides(NUMBERS[:3], torch.zeros(3))] == [0, 0, 3]


def test_the_loss_is_the_mean_over_pairs_and_answers():
    # -log sigmoid(1) = log(1 + e^-1) = 0.313262 and -log sigmoid(-0.5) = log(1 + e^0.5) = 0.974077
    # -0.75 log sigmoid(-1) - 0.25 log sigmoid(1) = 0.75 * 1.313262 + 0.25 * 0.313262 = 1.063262
    loss = reward_loss(sides(NUMBERS, SCORES), SCORES, center=0.0)
    assert loss.item() == pytest.approx((0.313262 + 0.974077 + 1.063262) / 3, abs=1e-6)


def test_numbers_of_pairs_alone_are_held_around_0():
    # 0.1 (2 + 1)^2 + 0.1 (0 + 0.5)^2 = 0.925
    apart = reward_loss(sides(NUMBERS, SCORES), SCORES, 0.1) - reward_loss(sides(NUMBERS, SCORES), SCORES, 0.0)
    assert apart.item() == pytest.approx(0.925 / 3, abs=1e-6)


def test_the_loss_is_least_where_the_sigmoid_is_the_score():
    number = torch.tensor([math.log(3.0)], requires_grad=True)  # whose sigmoid is 0.75
    reward_loss(sides(number, SCORES), SCORES, 0.0).backward()
    assert number.grad is not None
    assert number.grad.item() == pytest.approx(0.0, abs=1e-7)


def test_metrics_are_of_what_there_is():
    # sigmoid(-1) = 0.268941, (0.268941 - 0.75)^2 = 0.231418
    both = metrics(sums(sides(NUMBERS, SCORES), SCORES))
    assert both == pytest.approx(
        {"mean_reward": 0.5, "accuracy": 0.5, "margin": 0.25, "brier_score": 0.231418}, abs=1e-6
    )
    assert metrics(sums(sides(NUMBERS[:4], SCORES[:0]), SCORES[:0])).keys() == {"mean_reward", "accuracy", "margin"}
    assert metrics(sums(sides(NUMBERS[4:], SCORES), SCORES)).keys() == {"mean_reward", "brier_score"}


def test_a_batch_holds_chosen_rejected_and_single_answers_padded_on_the_right():
    nothing: dict[str, Any] = {"chosen_ids": None, "rejected_ids": None, "completion_ids": None, "score": None}
    rows = [
        {**nothing, "completion_ids": [7, 8], "score": 0.25},
        {**nothing, "chosen_ids": [1, 2, 3], "rejected_ids": [4]},
    ]
    batch = Batches(pad_token_id=9)(rows)
    assert batch["input_ids"].tolist() == [[1, 2, 3], [4, 9, 9], [7, 8, 9]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0], [1, 1, 0]]
    assert batch["scores"].tolist() == [0.25]
