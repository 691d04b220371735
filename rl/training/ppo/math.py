"""The arithmetic of PPO on answers, as functions of tensors: no model, no data.

Shapes: B answers, T tokens of the longest of them, V tokens in the vocabulary. A mask is 1 at the tokens of an answer,
its end-of-turn token included, and 0 at the padding behind it. What a function gives at padding is 0.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

CONTROLLER_CLIP = 0.2
"""Most of its relative error that the controller reacts to (Ziegler et al., 2019, section 2.2)."""


@dataclass(slots=True)
class KLController:
    """Moves the weight of the KL penalty so that the divergence comes near ``target``; a target of 0 leaves it alone."""

    coefficient: float
    target: float
    """Nats an answer."""
    horizon: float
    """Answers. An error of CONTROLLER_CLIP or more changes the weight by 20 % over so many."""

    def update(self, kl: float, answers: int) -> None:
        if self.target > 0:
            # in proportion to the relative error, which is clipped
            error = min(max(kl / self.target - 1, -CONTROLLER_CLIP), CONTROLLER_CLIP)
            self.coefficient *= 1 + error * answers / self.horizon


class AdvantageEstimate(NamedTuple):
    advantages: Tensor
    """(B, T), not whitened."""
    returns: Tensor
    """(B, T): what the value should have been."""


class Clipped(NamedTuple):
    loss: Tensor
    """Scalar, the mean over tokens."""
    fraction: Tensor
    """Scalar: share of the tokens at which the clipped term counted."""


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    return (values * mask).sum() / mask.sum().clamp(min=1)


def centre(values: Tensor, mask: Tensor) -> Tensor:
    """Values of mean 0 over the tokens, of the size that they had."""
    return (values - masked_mean(values, mask)) * mask


def whiten(values: Tensor, mask: Tensor) -> Tensor:
    """Values of mean 0 and variance 1 (of a sample) over the tokens. A single one has no spread and is only centred."""
    centred = centre(values, mask)  # (B, T)
    variance = (centred**2).sum() / (mask.sum() - 1).clamp(min=1)
    return centred * torch.rsqrt(variance + 1e-8)


def token_kl(log_probs: Tensor, reference: Tensor, mask: Tensor) -> Tensor:
    """(B, T): the log-ratio of each token that was sampled; its mean over samples is the divergence."""
    return (log_probs - reference) * mask


def token_rewards(scores: Tensor, kl: Tensor, mask: Tensor, coefficient: float) -> Tensor:
    """(B, T): the KL penalty at each token, and the answer's score (B,) at its last. Each answer has a token."""
    rewards = -coefficient * kl * mask  # (B, T)
    # answer's score: at its last token, (B,) indices into T
    last = mask.sum(dim=1).long() - 1
    rewards[torch.arange(len(scores), device=scores.device), last] += scores
    return rewards


def generalised_advantages(
    rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float
) -> AdvantageEstimate:
    """Schulman et al., 2016: A_t = delta_t + gamma lam A_t+1, and delta_t = r_t + gamma V_t+1 - V_t.
    After the last token of an answer nothing is to be had."""
    advantages = torch.zeros_like(rewards)  # (B, T)
    following = rewards.new_zeros(rewards.shape[0])  # (B,): A_t+1
    next_value = rewards.new_zeros(rewards.shape[0])  # (B,): V_t+1
    # backwards in time; the mask keeps both at 0 through the padding, up to the answer's last token
    for t in reversed(range(rewards.shape[1])):
        # temporal difference: what the token earned beyond what was expected before it (B,)
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        following = (delta + gamma * lam * following) * mask[:, t]
        next_value = values[:, t] * mask[:, t]
        advantages[:, t] = following
    return AdvantageEstimate(advantages, (advantages + values) * mask)  # returns: V_t + A_t


def policy_loss(log_probs: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, clip: float) -> Clipped:
    """-min(q A, clip(q) A) (Schulman et al., 2017, equation 7); all (B, T). The larger loss of the two counts, so nothing is
    won by moving the ratio q further than ``clip`` from 1."""
    # q: probability now over that when the token was generated; 1 at padding
    ratio = torch.exp((log_probs - old) * mask)
    free = -advantages * ratio
    bounded = -advantages * ratio.clamp(1 - clip, 1 + clip)
    return Clipped(
        masked_mean(torch.maximum(free, bounded), mask), masked_mean((bounded > free).float(), mask).detach()
    )


def value_loss(values: Tensor, old: Tensor, returns: Tensor, mask: Tensor, clip: float) -> Clipped:
    """Half the squared error, of the value or of the value held within ``clip`` of ``old``, whichever is larger; all
    (B, T)."""
    bounded = old + (values - old).clamp(-clip, clip)
    free_error, bounded_error = (values - returns) ** 2, (bounded - returns) ** 2
    loss = 0.5 * masked_mean(torch.maximum(free_error, bounded_error), mask)
    return Clipped(loss, masked_mean((bounded_error > free_error).float(), mask).detach())


def entropy(logits: Tensor) -> Tensor:
    """(B, T) nats, of logits (B, T, V)."""
    log_probs = torch.log_softmax(logits, dim=-1)  # (B, T, V)
    return -(log_probs.exp() * log_probs).sum(dim=-1)


def explained_variance(values: Tensor, returns: Tensor, mask: Tensor) -> float:
    """1 where the values are the returns, 0 where they are as good as the mean, below 0 where they are worse than it."""
    # 1 - Var(returns - values) / Var(returns), over the answers' tokens
    spread = ((returns - masked_mean(returns, mask)) ** 2 * mask).sum()
    error = (returns - values) * mask
    left = ((error - masked_mean(error, mask)) ** 2 * mask).sum()
    return float(1 - left / spread) if spread > 0 else 0.0
