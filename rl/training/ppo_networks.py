"""The three networks of PPO over one set of base weights, so that the memory is that of one model and two adapters.

- the policy: the base model with LoRA adapter ``default``
- the reference: the base model with no adapter
- the value: the base model with LoRA adapter ``value``, and a linear head that starts at 0

A head on the policy's own hidden states would save a forward pass, but then the value's loss would pull at the policy;
with an adapter of its own it cannot. Dropout is off everywhere: else the ratio of new to old probabilities would differ
from 1 before anything has been learned.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from peft import PeftModel, get_peft_model
from torch import Tensor
from torch.nn import Linear, Parameter
from transformers import PreTrainedModel
from trl.trainer.utils import disable_dropout_in_model

from rl.config import TrainingConfig
from rl.training import fitting, loading

POLICY, VALUE = "default", "value"


@dataclass(frozen=True, slots=True)
class Sequences:
    """Prompts with an answer each: P tokens of prompt, padded on the left, then T tokens of answer, padded on the right."""

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

    def __getitem__(self, rows: Tensor) -> Sequences:
        return Sequences(self.ids[rows], self.attention[rows], self.mask[rows])

    def inputs(self) -> dict[str, Any]:
        positions = (self.attention.cumsum(dim=1) - 1).clamp(min=0)
        return {
            "input_ids": self.ids,
            "attention_mask": self.attention,
            "position_ids": positions,
            "use_cache": False,
        }


class Networks:
    def __init__(self, base: PreTrainedModel, config: TrainingConfig) -> None:
        if config.activation_checkpointing:
            base.gradient_checkpointing_enable()
        self.model: PeftModel = get_peft_model(base, fitting.lora(config), adapter_name=POLICY)
        self.model.add_adapter(VALUE, fitting.lora(config))
        disable_dropout_in_model(self.model)
        self.head = Linear(base.config.get_text_config().hidden_size, 1, device=base.device)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)
        self._autocast = loading.autocast_dtype(config.precision)

    def policy_weights(self) -> list[Parameter]:
        return self._weights_of(POLICY)

    def value_weights(self) -> list[Parameter]:
        return [*self._weights_of(VALUE), *self.head.parameters()]

    def logits(self, sequences: Sequences, temperature: float) -> Tensor:
        """(B, T, vocabulary) of the policy, at the answers' tokens."""
        tokens = sequences.mask.shape[1]
        self._use(POLICY)
        with self._cast():
            output = self.model(**sequences.inputs(), logits_to_keep=tokens + 1)
        return output.logits[:, :-1].float() / temperature

    def reference_logits(self, sequences: Sequences, temperature: float) -> Tensor:
        self._use(POLICY)
        with self.model.disable_adapter():
            return self.logits(sequences, temperature)

    def values(self, sequences: Sequences) -> Tensor:
        """(B, T): what is to be had from before each token of the answer on."""
        tokens = sequences.mask.shape[1]
        self._use(VALUE)
        with self._cast():
            hidden = self.model.get_base_model().base_model(**sequences.inputs()).last_hidden_state
        return self.head(hidden[:, -tokens - 1 : -1].float()).squeeze(-1) * sequences.mask

    @torch.no_grad()
    def generate(self, **options: Any) -> Tensor:
        self._use(POLICY)
        with self._cast():
            return self.model.generate(**options)

    def _use(self, adapter: str) -> None:
        """PEFT lets only the active adapter have gradients: a backward pass belongs before the next forward pass."""
        if self.model.active_adapter != adapter:
            self.model.set_adapter(adapter)

    def _cast(self) -> Any:
        device = self.head.weight.device.type
        return torch.autocast(device, dtype=self._autocast) if self._autocast else nullcontext()

    def _weights_of(self, adapter: str) -> list[Parameter]:
        return [weight for name, weight in self.model.named_parameters() if f".{adapter}." in name and "lora_" in name]


def token_log_probs(logits: Tensor, tokens: Tensor) -> Tensor:
    """(B, T) of logits (B, T, vocabulary)."""
    chosen = logits.gather(dim=-1, index=tokens.unsqueeze(-1)).squeeze(-1)
    return chosen - torch.logsumexp(logits, dim=-1)
