"""TRL's trainer for episodes of several conversations.

Sizes: N episodes, M conversations of them, B conversations at most in a forward pass; P tokens of the longest prompt, T of
the longest conversation behind it. TRL has as many rewards as prompts, and everything else is done a conversation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from rl.training.agent.rollouts import Rollouts
from rl.training.grpo import Trainer

_MEANS = ("grpo", "bnpo", "dr_grpo", "luspo", "sapo")
"""Losses that are a mean over the rows of a pass; the others are sums that the tokens of the whole step divide."""
Inputs = dict[str, Any]


class AgentTrainer(Trainer):
    def _generate_and_score_completions(self, inputs: list[Inputs]) -> Inputs:
        """Each conversation has the advantage of its episode: (N) becomes (M)."""
        outputs: Inputs = super()._generate_and_score_completions(inputs)
        assert isinstance(self.rollout_func, Rollouts)  # noqa: S101  it was given
        if self.rollout_func.episodes:
            outputs["advantages"] = outputs["advantages"][self.rollout_func.episodes]
        return outputs

    def compute_loss(self, model: Any, inputs: Inputs, *arguments: Any, **options: Any) -> Tensor:
        """Goes backward for all parts of a pass that is larger than B but the last, whose loss is returned with theirs."""
        parts = list(parts_of(inputs, self.args.per_device_train_batch_size))
        if len(parts) == 1:
            return super().compute_loss(model, inputs, *arguments, **options)
        rows, total = len(inputs["advantages"]), torch.zeros((), device=self.accelerator.device)
        for part in parts:
            weight = len(part["advantages"]) / rows if self.loss_type in _MEANS else 1.0
            loss = super().compute_loss(model, part, *arguments, **options) * weight
            if part is not parts[-1]:
                self.accelerator.backward(loss)
                total += loss.detach()
        return loss + total


def parts_of(inputs: Inputs, most: int) -> Iterator[Inputs]:
    """The rows in parts of at most ``most``, without the padding that a part does not need; all of them where they are
    that few."""
    rows = len(inputs["advantages"])
    if rows <= most:
        yield inputs
        return
    for start in range(0, rows, most):
        part = {
            name: value[start : start + most] if isinstance(value, Tensor) and value.ndim else value
            for name, value in inputs.items()
        }
        yield _trim(part)


def _trim(part: Inputs) -> Inputs:
    """Prompts are padded on the left (B, P), what follows on the right (B, T)."""
    prompt, length = part["prompt_mask"].shape[1], part["completion_mask"].shape[1]
    longest_prompt = int(part["prompt_mask"].sum(1).max())
    longest = int(part["completion_mask"].sum(1).max())
    of_prompt = ("prompt_ids", "prompt_mask")
    return {
        name: value[:, prompt - longest_prompt :]
        if name in of_prompt
        else value[:, :longest]
        if isinstance(value, Tensor) and value.ndim == 2 and value.shape[1] == length
        else value
        for name, value in part.items()
    }
