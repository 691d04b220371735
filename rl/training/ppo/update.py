"""Learning from one rollout: some passes over it in shuffled mini-batches.

Minimises policy loss + vf_coef * value loss (math.py), each the mean over the tokens of a mini-batch, by AdamW without
weight decay. Shapes: b answers of one forward pass, T tokens of the longest answer of the rollout, V tokens in the
vocabulary.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.utils import clip_grad_norm_

from rl.config.base import FULL_LEARNING_RATE
from rl.config.ppo_config import PPOConfig
from rl.lm import processes
from rl.training.ppo import math as ppo_math
from rl.training.ppo.networks import Networks, token_log_probs
from rl.training.ppo.rollout import Beat, Rollout

_MEASURED = ("loss", "policy_loss", "value_loss", "clip_fraction", "value_clip_fraction", "entropy")


class Updater:
    """Adam over the weights of policy and value. Each has its own gradient clipping: they share no weight."""

    def __init__(self, networks: Networks, config: PPOConfig) -> None:
        self._networks, self._config = networks, config
        self._groups = (networks.policy_weights(), networks.value_weights())
        # The value is an adapter in any case, which wants an adapter's steps.
        scales = (1.0, 1 / FULL_LEARNING_RATE if config.full else 1.0)
        groups = [{"params": group, "scale": scale} for group, scale in zip(self._groups, scales, strict=True)]
        self.optimizer = torch.optim.AdamW(groups, lr=config.learning_rate, weight_decay=0.0)

    def __call__(self, rollout: Rollout, learning_rate: float, beat: Beat) -> dict[str, float]:
        """The means over all updates of what was measured."""
        self._networks.train()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate * group["scale"]
        sums: defaultdict[str, float] = defaultdict(float)
        updates = 0
        # ppo_epochs passes over the same answers: the ratio starts at 1 and is clipped as the policy moves
        for rows in self._mini_batches(len(rollout.sequences)):
            for name, value in self._step(rollout, rows, beat).items():
                sums[name] += value
            updates += 1
        return {name: value / updates for name, value in sums.items()} | {"learning_rate": learning_rate}

    def _mini_batches(self, answers: int) -> Iterator[Tensor]:
        for _ in range(int(self._config.ppo_epochs)):
            yield from torch.randperm(answers).split(int(self._config.mini_batch_size))

    def _step(self, rollout: Rollout, rows: Tensor, beat: Beat) -> dict[str, float]:
        """Every process has the whole rollout, takes its share of the rows, and gets the gradient of all of them."""
        self.optimizer.zero_grad(set_to_none=True)
        # tokens of the whole mini-batch: the denominator of every part's mean
        tokens = rollout.sequences.mask[rows.to(rollout.log_probs.device)].sum()
        sums = dict.fromkeys(_MEASURED, 0.0)
        for part in self._own_passes(rows):
            beat()
            for name, value in self._backward(rollout, part.to(tokens.device), tokens).items():
                sums[name] += value
        # gradients: summed over processes, then clipped for policy and value apart, then one step of both
        self._add_up_gradients()
        norm = self._clipped_norm(self._groups)
        self.optimizer.step()
        return {**processes.totals(sums), "grad_norm": norm}

    def _own_passes(self, rows: Tensor) -> Iterator[Tensor]:
        own = rows[processes.rank() :: processes.count()]
        if len(own):  # a small last mini-batch may not be enough for all
            yield from own.split(processes.share(self._config.rows_a_pass))

    def _add_up_gradients(self) -> None:
        for weight in (weight for group in self._groups for weight in group):
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
            weight.grad = processes.total(weight.grad)

    def _backward(self, rollout: Rollout, rows: Tensor, tokens: Tensor) -> dict[str, float]:
        """``tokens``: of the whole mini-batch, so that its parts weigh as many tokens as they have."""
        sequences, config = rollout.sequences[rows], self._config
        share = float(sequences.mask.sum() / tokens)
        # policy: its backward pass comes before the value's forward pass, which switches the adapter
        logits = self._networks.logits(sequences, config.temperature)  # (b, T, V)
        log_probs = token_log_probs(logits, sequences.answers)  # (b, T)
        old, advantages = rollout.log_probs[rows], rollout.advantages[rows]
        policy = ppo_math.policy_loss(log_probs, old, advantages, sequences.mask, config.cliprange)
        (policy.loss * share).backward()
        # entropy is only measured, not rewarded
        entropy = ppo_math.masked_mean(ppo_math.entropy(logits.detach()), sequences.mask)
        # value: the same tokens under the other adapter
        values = self._networks.values(sequences)  # (b, T)
        old_values, returns = rollout.values[rows], rollout.returns[rows]
        value = ppo_math.value_loss(values, old_values, returns, sequences.mask, config.cliprange_value)
        (config.vf_coef * value.loss * share).backward()
        loss = policy.loss + config.vf_coef * value.loss
        measures = (loss, policy.loss, value.loss, policy.fraction, value.fraction, entropy)
        return {name: float(of.detach()) * share for name, of in zip(_MEASURED, measures, strict=True)}

    def _clipped_norm(self, groups: Sequence[list[Parameter]]) -> float:
        """The norm of all gradients, before they were clipped. A limit of 0 means none."""
        most = self._config.max_grad_norm or math.inf
        norms = [float(clip_grad_norm_(group, most)) for group in groups]
        return math.hypot(*norms)
