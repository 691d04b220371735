"""The head that keeps gradients against TRL's, which computes the logits again."""

from typing import Any

import pytest
import torch
import trl.trainer.utils
from torch import Tensor
from trl.kernels import ChunkedLogProbFunction

from rl.lm.token_tree import head
from rl.lm.token_tree.head import kept_gradients

pytestmark = pytest.mark.learn

OUTPUTS = ("log_probs", "entropy", "mean_logits", "is_top1")
TOKENS, WIDTH, WORDS = 75, 16, 300


def run(function: Any, dtype: torch.dtype = torch.float32, **changes: Any) -> tuple[tuple[Tensor | None, ...], Tensor]:
    """Its outputs, and the gradient of a weighted sum of the log-probabilities to the states."""
    draw = torch.Generator().manual_seed(0)
    states = torch.randn(TOKENS, WIDTH, generator=draw).to(dtype).requires_grad_()
    words, targets = torch.randn(WORDS, WIDTH, generator=draw).to(dtype), torch.arange(TOKENS) * 2
    words.requires_grad = changes.get("trained", False)
    softcap, outputs = changes.get("softcap"), changes.get("outputs", OUTPUTS)
    computed = function.apply(states, words, None, targets, 0.7, 128, softcap, 1.3, outputs)
    (computed[0] * torch.linspace(-1, 2, TOKENS)).sum().backward()
    return computed, states.grad


@pytest.fixture(params=[head._BYTES, 1], ids=["one chunk", "chunks"])
def chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "_BYTES", request.param)


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-5), (torch.bfloat16, 0.02)])
def test_outputs_and_gradients_are_those_of_trl(dtype: torch.dtype, near: float):
    (ours, of_ours), (theirs, of_theirs) = run(head._Head, dtype), run(ChunkedLogProbFunction, dtype)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, atol=near, rtol=near)
    torch.testing.assert_close(of_ours, of_theirs, atol=near * float(of_theirs.abs().max()), rtol=0)


def test_only_what_is_asked_for_is_computed():
    assert [value is None for value in run(head._Head, outputs=("log_probs",))[0]] == [False] + [True] * 4


def test_the_gradient_is_kept_instead_of_the_logits():
    with kept_gradients():
        (scores, *_), _ = run(trl.trainer.utils._ChunkedLogProbFunction)
    assert type(scores.grad_fn).__name__ == "_KeptGradientBackward"
    assert trl.trainer.utils._ChunkedLogProbFunction is ChunkedLogProbFunction


@pytest.mark.parametrize("changes", [{"trained": True}, {"softcap": 30.0}, {"outputs": (*OUTPUTS, "log_sum_sq_probs")}])
def test_a_head_that_asks_for_more_is_left_to_trl(changes: dict[str, Any]):
    (ours, of_ours), (_, of_theirs) = run(head._Head, **changes), run(ChunkedLogProbFunction, **changes)
    assert type(ours[0].grad_fn).__name__ == "ChunkedLogProbFunctionBackward"
    assert torch.equal(of_ours, of_theirs)


def test_the_gradient_of_an_entropy_is_refused_rather_than_left_out():
    states = torch.randn(3, WIDTH, requires_grad=True)
    words, targets = torch.randn(WORDS, WIDTH), torch.arange(3)
    entropy = head._Head.apply(states, words, None, targets, 1.0, 128, None, 1.0, OUTPUTS)[1]
    with pytest.raises(NotImplementedError, match="--no-fast"):
        entropy.sum().backward()
