"""The three networks of PPO over one set of base weights, so that the memory is that of one model and two adapters.

- the policy: the base model with LoRA adapter ``default``
- the reference: the base model with no adapter
- the value: the base model with LoRA adapter ``value``, and a linear head that starts at 0

Where all weights are trained the policy is a model of its own, and the other two share a frozen copy of it.

A head on the policy's own hidden states would save a forward pass, but then the value's loss would pull at the policy;
with an adapter of its own it cannot. Dropout is off everywhere: else the ratio of new to old probabilities would differ
from 1 before anything has been learned.

Shapes: B answers, P tokens of the longest prompt, T of the longest answer, V tokens in the vocabulary, H hidden
features.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel, get_peft_model, set_peft_model_state_dict
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import Linear, Parameter
from torch.optim import Optimizer
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from trl.trainer.utils import disable_dropout_in_model

from rl.base.errors import TrainingFailed
from rl.base.files import publish_directory
from rl.config import TrainingConfig
from rl.lm import checkpoints, loading, processes
from rl.lm.generating import sample
from rl.lm.model_path import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from rl.lm.reading import errors_as
from rl.training import fitting
from rl.training.ppo.math import KLController

POLICY, VALUE = "default", "value"


@dataclass(frozen=True, slots=True)
class PaddedSequences:
    """Prompts with an answer each: prompts padded on the left, then answers padded on the right, so that every answer begins
    at the same column."""

    ids: Tensor
    """(B, P + T)"""
    attention: Tensor
    """(B, P + T), 1 at tokens."""
    mask: Tensor
    """(B, T), float: 1 at tokens of the answer."""

    @property
    def answers(self) -> Tensor:
        """(B, T) token ids."""
        return self.ids[:, -self.mask.shape[1] :]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: Tensor) -> PaddedSequences:
        return PaddedSequences(self.ids[rows], self.attention[rows], self.mask[rows])

    def inputs(self) -> dict[str, Any]:
        # positions: counted from the first token of each prompt, not from the padding before it (B, P + T)
        positions = (self.attention.cumsum(dim=1) - 1).clamp(min=0)
        return {"input_ids": self.ids, "attention_mask": self.attention, "position_ids": positions, "use_cache": False}


class Networks:
    def __init__(self, base: PreTrainedModel, config: TrainingConfig) -> None:
        disable_dropout_in_model(base)
        if config.activation_checkpointing:
            base.gradient_checkpointing_enable()
        without_dropout = replace(config, lora_dropout=0.0)
        # the frozen weights of value and reference, and of the policy too where it is an adapter
        frozen = deepcopy(base) if config.full else base
        self.shared: PeftModel = get_peft_model(frozen, fitting.lora(frozen, without_dropout), adapter_name=VALUE)
        if not config.full:
            self.shared.add_adapter(POLICY, fitting.lora(base, without_dropout))
        self.policy: PreTrainedModel | PeftModel = base if config.full else self.shared
        # value head: (H) to one number, 0 for everything until it has learned
        self.head = Linear(base.config.get_text_config().hidden_size, 1, device=base.device)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)
        self._autocast = loading.autocast_dtype(config.precision)

    def train(self, mode: bool = True) -> None:
        for model in (self.policy, self.shared):
            model.train(mode)

    def policy_weights(self) -> list[Parameter]:
        return self._weights_of(POLICY) if self.policy is self.shared else list(self.policy.parameters())

    def value_weights(self) -> list[Parameter]:
        return [*self._weights_of(VALUE), *self.head.parameters()]

    def logits(self, sequences: PaddedSequences, temperature: float) -> Tensor:
        """(B, T, V) of the policy, each at the position that predicts a token of the answer."""
        self._use(POLICY)
        return self._logits(self.policy, sequences, temperature)

    def reference_logits(self, sequences: PaddedSequences, temperature: float) -> Tensor:
        with self.shared.disable_adapter():
            return self._logits(self.shared, sequences, temperature)

    def _logits(self, model: torch.nn.Module, sequences: PaddedSequences, temperature: float) -> Tensor:
        # (B, T + 1, V): the last token of the prompt predicts the first of the answer; what the last one predicts is
        # cut
        with self._cast():
            output = model(**sequences.inputs(), logits_to_keep=sequences.mask.shape[1] + 1)
        return output.logits[:, :-1].float() / temperature

    def values(self, sequences: PaddedSequences) -> Tensor:
        """(B, T): what is to be had from before each token of the answer on."""
        tokens = sequences.mask.shape[1]
        self._use(VALUE)
        with self._cast():
            # (B, P + T, H), without the language-model head
            hidden = loading.base_within(self.shared).base_model(**sequences.inputs()).last_hidden_state
        # the states that predict the answer's tokens: (B, T, H) to (B, T, 1) to (B, T), 0 at padding
        return self.head(hidden[:, -tokens - 1 : -1].float()).squeeze(-1) * sequences.mask

    def sample(self, tokenizer: PreTrainedTokenizerBase, prompts: Sequence[list[int]], **how: Any) -> list[list[int]]:
        """Answers of the policy, as ``rl.lm.generating`` samples them."""
        self._use(POLICY)
        with self._cast():
            return sample(self.policy, tokenizer, prompts, **how)

    def _use(self, adapter: str) -> None:
        """PEFT lets only the active adapter have gradients: a backward pass belongs before the next forward pass."""
        if adapter in self.shared.peft_config and self.shared.active_adapter != adapter:
            self.shared.set_adapter(adapter)

    def _cast(self) -> Any:
        device = self.head.weight.device.type
        return torch.autocast(device, dtype=self._autocast) if self._autocast else nullcontext()

    def _weights_of(self, adapter: str) -> list[Parameter]:
        return [weight for name, weight in self.shared.named_parameters() if f".{adapter}." in name and "lora_" in name]


def token_log_probs(logits: Tensor, tokens: Tensor) -> Tensor:
    """(B, T) of logits (B, T, V)."""
    # log softmax at the token alone: its logit less the log of the sum over V, without a second tensor of (B, T, V)
    chosen = logits.gather(dim=-1, index=tokens.unsqueeze(-1)).squeeze(-1)
    return chosen - torch.logsumexp(logits, dim=-1)


_HEAD = "value_head.safetensors"
_OPTIMIZER = "optimizer.pt"
_FILES = (f"{VALUE}/{ADAPTER_WEIGHTS}", f"{VALUE}/{ADAPTER_CONFIG}", _HEAD)


@dataclass(slots=True)
class Progress:
    """All that changes from batch to batch beside weights."""

    controller: KLController
    step: int = 0
    """Batches that were learned from."""
    diverging: int = 0
    """Batches in a row whose divergence was far too large."""
    log: list[dict[str, float]] = field(default_factory=list)
    """The metrics of each batch."""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """A checkpoint is a folder like those of the transformers trainer (``checkpoints``), so that the same code finds the
    newest whole one: the policy's adapter or whole model at its top, the value's adapter in ``value/`` with its head beside
    it. There are no random numbers in it: each batch begins with its own seed."""

    networks: Networks
    optimizer: Optimizer
    output_dir: Path
    scratch: Path

    def save(self, progress: Progress) -> None:
        """The folder appears whole or not at all. All processes come here, and the first one writes."""
        if not processes.is_first():
            processes.wait()
            return
        unfinished = self.scratch / f"checkpoint-{progress.step}"
        adapters = list(self.networks.shared.peft_config)
        self.networks.shared.save_pretrained(unfinished, selected_adapters=adapters, save_embedding_layers=False)
        if POLICY not in adapters:
            self.networks.policy.save_pretrained(unfinished, max_shard_size=loading.SHARD)
        save_file({name: of.contiguous() for name, of in self.networks.head.state_dict().items()}, unfinished / _HEAD)
        torch.save(self.optimizer.state_dict(), unfinished / _OPTIMIZER)
        state = {
            "global_step": progress.step,
            "kl_coef": progress.controller.coefficient,
            "diverging": progress.diverging,
            "log_history": progress.log,
            checkpoints.FILES_KEY: _FILES,
        }
        (unfinished / checkpoints.STATE).write_text(json.dumps(state), encoding="utf-8")
        publish_directory(unfinished, self.output_dir / unfinished.name)
        checkpoints.remove_old(self.output_dir)
        processes.wait()

    def load(self, path: Path, progress: Progress) -> None:
        """Weights, optimiser and ``progress`` become those of the checkpoint."""
        shared, policy, device = self.networks.shared, self.networks.policy, str(self.networks.head.weight.device)
        with errors_as(TrainingFailed, f"the checkpoint {path} does not fit this training"):
            for adapter in shared.peft_config:
                file = (path / VALUE if adapter == VALUE else path) / ADAPTER_WEIGHTS
                set_peft_model_state_dict(shared, load_file(file, device=device), adapter_name=adapter)
            if policy is not shared:
                policy.load_state_dict(type(policy).from_pretrained(path, use_safetensors=True).state_dict())
            self.networks.head.load_state_dict(load_file(path / _HEAD, device=device))
            self.optimizer.load_state_dict(torch.load(path / _OPTIMIZER, weights_only=True, map_location=device))
            state = json.loads((path / checkpoints.STATE).read_text(encoding="utf-8"))
            progress.step, progress.diverging = state["global_step"], state["diverging"]
            progress.log, progress.controller.coefficient = state["log_history"], state["kl_coef"]
