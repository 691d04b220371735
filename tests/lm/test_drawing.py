"""Tokens that are drawn, against what transformers would draw from."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from rl.lm.generating import Draw, draw, keep_likely

pytestmark = pytest.mark.learn

SETTINGS = [(1.0, 1.0, 0), (0.7, 1.0, 0), (1.0, 1.0, 50), (1.0, 0.95, 0), (1.3, 0.9, 50), (0.5, 0.3, 5), (1.0, 0.01, 0)]
SCORES = torch.randn(4, 3000, generator=torch.Generator().manual_seed(0)) * torch.tensor([[0.1], [1.0], [3.0], [9.0]])


def warped(scores: Tensor, temperature: float, top_p: float, top_k: int) -> Tensor:
    warpers = LogitsProcessorList([TemperatureLogitsWarper(temperature)])
    if top_k:
        warpers.append(TopKLogitsWarper(top_k))
    if top_p < 1:
        warpers.append(TopPLogitsWarper(top_p))
    theirs: Tensor = warpers(torch.zeros(len(scores), 1, dtype=torch.long), scores)
    return theirs


@pytest.mark.parametrize(("temperature", "top_p", "top_k"), SETTINGS)
def test_scores_are_cut_as_by_transformers(temperature: float, top_p: float, top_k: int):
    values, words = keep_likely(SCORES / temperature, top_p, top_k)
    ours = values
    if words is not None:
        ours = torch.full_like(SCORES, float("-inf")).scatter_(1, words, values)
    assert torch.equal(ours, warped(SCORES, temperature, top_p, top_k))


def test_equal_scores_at_the_cut_all_stay():
    scores = torch.tensor([[3.0, 1.0, 2.0, 2.0, 2.0, 0.0], [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]])
    values, words = keep_likely(scores, 1.0, 2)
    assert words is not None
    ours = torch.full_like(scores, float("-inf")).scatter_(1, words, values)
    assert torch.equal(ours, warped(scores, 1.0, 1.0, 2))


def test_a_number_between_two_sums_draws_the_token_between_them(monkeypatch: pytest.MonkeyPatch):
    shares = torch.tensor([[0.25, 0.5, 0.25]])
    for number, token in [(0.0, 0), (0.24, 0), (0.26, 1), (0.74, 1), (0.76, 2), (0.9999999, 2)]:
        monkeypatch.setattr(torch, "rand_like", lambda like, number=number: torch.full_like(like, number))
        assert draw(shares.log()).tolist() == [[token]]


@pytest.mark.parametrize("number", [0.0, 1 - 2**-53])
def test_what_is_cut_off_is_never_drawn(number: float, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch, "rand_like", lambda like: torch.full_like(like, number))
    assert draw(torch.tensor([[float("-inf"), 1.0, float("-inf")]] * 2)).tolist() == [[1], [1]]


def test_the_same_seed_draws_the_same():
    ids = torch.zeros(4, 1, dtype=torch.long)

    def drawn() -> list[int]:
        torch.manual_seed(3)
        tokens: list[int] = Draw(0.9, 0.95, 0)(ids, SCORES).argmax(dim=-1).tolist()
        return tokens

    assert drawn() == drawn()


def test_scores_that_are_not_numbers_raise():
    with pytest.raises(RuntimeError, match="not numbers"):
        draw(torch.tensor([[1.0, float("nan")]]))
