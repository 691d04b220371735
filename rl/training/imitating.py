"""Imitation of good answers: supervised fine-tuning, by TRL's SFTTrainer.

Minimises the mean over rows of -log p(answer | prompt) a token of the answer, so that a long answer counts no more than a
short one.

Departs from TRL in these ways: rows are token ids already; the loss is a mean of means and not over all tokens of a pass; no
entropy and no token accuracy is measured, which cost the whole vocabulary's scores.

Shapes: B rows of a pass, T tokens of the longest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import torch
from datasets import Dataset, Features, List, Value
from peft import PeftModel
from torch import Tensor
from transformers import PreTrainedModel
from trl import SFTConfig, SFTTrainer

from rl.config import TrainingConfig
from rl.lm.log_probs import PromptAndAnswer, pad_sequences
from rl.training import fitting
from rl.training.preparing import Start, write_arrow

COLUMNS: Final = ("prompt_ids", "answer_ids")
RISING_STEPS: Final = 10
"""Steps over which the learning rate rises, or a quarter of a shorter run."""
_FEATURES: Final = Features({name: List(Value("int32")) for name in COLUMNS})


class Imitation(SFTTrainer):
    right: Mapping[int, float]
    """Step to the share of right answers that goes into its figures."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.model_accepts_loss_kwargs = False  # passes of a step count alike, and not by their tokens
        self.right = {}

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs and self.state.global_step in self.right:
            logs = {**logs, "right": self.right[self.state.global_step]}
        super().log(logs, start_time)

    def _set_signature_columns_if_needed(self) -> None:
        self._signature_columns = list(COLUMNS)

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor | tuple[Tensor, None]:
        output = model(**inputs, use_cache=False, fused_lm_head=True)
        # (B): -log p a token, of the tokens that are learned
        losses = -output.log_probs.float().sum(1) / output.label_mask.sum(1).clamp(min=1)
        return (losses.mean(), None) if return_outputs else losses.mean()


def make_trainer(
    start: Start, model: PreTrainedModel | PeftModel, rows: Dataset, config: TrainingConfig, **of_sft: Any
) -> Imitation:
    """``rows``: as ``good_rows`` makes them; ``of_sft``: arguments of TRL's SFTConfig in place of the run's own."""
    return Imitation(
        model=model,
        args=fitting.arguments(
            SFTConfig,
            config,
            start.scratch / "sft",
            **{"max_length": None, "dataset_kwargs": {"skip_prepare_dataset": True}, **of_sft},
        ),
        train_dataset=rows,
        processing_class=start.tokenizer,
        peft_config=fitting.peft_config(model, config),
        data_collator=collate,
    )


def steady_schedule(config: TrainingConfig, rows: int) -> dict[str, Any]:
    """The learning rate rises over a few steps and falls evenly, which is what short runs were measured with."""
    return {"lr_scheduler_type": "linear", "warmup_steps": min(RISING_STEPS, max(1, config.steps(rows) // 4))}


def collate(examples: list[dict[str, Any]]) -> dict[str, Tensor]:
    """``input_ids``, ``attention_mask`` and ``labels``, (B, T)."""
    batch: dict[str, Tensor] = pad_sequences([(row["prompt_ids"], row["answer_ids"]) for row in examples])
    return batch


def good_rows(start: Start, good: Iterable[PromptAndAnswer], name: str = "good.arrow") -> Dataset:
    """Each text once, in the order in which it comes, in a file of the scratch folder."""
    path = start.path(name)
    write_arrow(_distinct(good), path, _FEATURES)
    return Dataset.from_file(str(path))


def _distinct(good: Iterable[PromptAndAnswer]) -> Iterator[dict[str, list[int]]]:
    seen: set[int] = set()
    for prompt, answer in good:
        key = hash((tuple(prompt), tuple(answer)))
        if key not in seen:
            seen.add(key)
            yield {"prompt_ids": list(prompt), "answer_ids": list(answer)}
