"""Learning from one rollout: some passes over it in shuffled mini-batches."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.utils import clip_grad_norm_

from rl.config.methods import PPOConfig
from rl.training import ppo_math
from rl.training.ppo_networks import Networks, token_log_probs
from rl.training.ppo_rollout import Beat, Rollout


class Updater:
    """Adam over the weights of policy and value. Each has its own gradient clipping: they share no weight."""

    def __init__(self, networks: Networks, config: PPOConfig) -> None:
        self._networks, self._config = networks, config
        self._groups = (networks.policy_weights(), networks.value_weights())
        self.optimizer = torch.optim.AdamW(
            [{"params": group} for group in self._groups], lr=config.learning_rate, weight_decay=0.0
        )

    def __call__(self, rollout: Rollout, learning_rate: float, beat: Beat) -> dict[str, float]:
        """The means over all updates of what was measured."""
        self._networks.model.train()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        sums: defaultdict[str, float] = defaultdict(float)
        updates = 0
        for rows in self._mini_batches(len(rollout.sequences)):
            for name, value in self._step(rollout, rows, beat).items():
                sums[name] += value
            updates += 1
        return {name: value / updates for name, value in sums.items()} | {"learning_rate": learning_rate}

    def _mini_batches(self, answers: int) -> Iterator[Tensor]:
        for _ in range(int(self._config.ppo_epochs)):
            yield from torch.randperm(answers).split(int(self._config.mini_batch_size))

    def _step(self, rollout: Rollout, rows: Tensor, beat: Beat) -> dict[str, float]:
        self.optimizer.zero_grad(set_to_none=True)
        tokens = rollout.sequences.mask[rows.to(rollout.log_probs.device)].sum()
        found: defaultdict[str, float] = defaultdict(float)
        for part in rows.split(self._config.rows_a_pass):
            beat()
            for name, value in self._backward(rollout, part.to(tokens.device), tokens).items():
                found[name] += value
        found["grad_norm"] = self._clipped_norm(self._groups)
        self.optimizer.step()
        return found

    def _backward(self, rollout: Rollout, rows: Tensor, tokens: Tensor) -> dict[str, float]:
        """``tokens``: of the whole mini-batch, so that its parts weigh as many tokens as they have."""
        sequences, config = rollout.sequences[rows], self._config
        share = float(sequences.mask.sum() / tokens)
        logits = self._networks.logits(sequences, config.temperature)
        log_probs = token_log_probs(logits, sequences.answers)
        old, advantages = rollout.log_probs[rows], rollout.advantages[rows]
        policy = ppo_math.policy_loss(log_probs, old, advantages, sequences.mask, config.cliprange)
        (policy.loss * share).backward()
        entropy = ppo_math.masked_mean(ppo_math.entropy(logits.detach()), sequences.mask)
        values = self._networks.values(sequences)
        old_values, returns = rollout.values[rows], rollout.returns[rows]
        value = ppo_math.value_loss(values, old_values, returns, sequences.mask, config.cliprange_value)
        (config.vf_coef * value.loss * share).backward()
        found = {
            "loss": policy.loss + config.vf_coef * value.loss,
            "policy_loss": policy.loss,
            "value_loss": value.loss,
            "clip_fraction": policy.fraction,
            "value_clip_fraction": value.fraction,
            "entropy": entropy,
        }
        return {name: float(of.detach()) * share for name, of in found.items()}

    def _clipped_norm(self, groups: Sequence[list[Parameter]]) -> float:
        """Of all gradients, before they were clipped. A limit of 0 is none."""
        most = self._config.max_grad_norm or math.inf
        norms = [float(clip_grad_norm_(group, most)) for group in groups]
        return math.hypot(*norms)
