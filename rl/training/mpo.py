"""Mixed preference optimisation (MPO, after Wang et al., 2024, arXiv 2411.10442) of a LoRA adapter: one run learns from
every kind of rating.

Rows: ``prompt``; ``chosen`` and ``rejected``, each a list of chat messages or null; and ``weight``, how sure the raters are,
0 to 1. A row with both answers is a preference pair, one with a chosen answer alone is liked, one with a rejected answer
alone is disliked.

With r = log p(answer) / ref(answer), p the trained model's probability of a whole answer and ref that of the model that
training started from, the loss is the mean over rows of weight times

    pair       -log sigmoid(beta (r_chosen - r_rejected)) + imitation           DPO
    liked      w_good (1 - sigmoid(beta (r - z))) + imitation                   KTO
    disliked   w_bad (1 - sigmoid(beta (z - r)))                                KTO

Imitation is ``sft_weight`` times the mean over the chosen answer's tokens of -log p. It keeps the model fluent where the
preference alone would make chosen answers less likely too, only less so than rejected ones, and it is what an edited answer
is for.

z is KTO's point of reference: the mean of r over answers to other prompts of the same pass, at least 0, and without a
gradient; w_good and w_bad make both labels weigh the same. See dpo.py and kto.py for what departs from TRL. Passes of pairs
and passes of single answers take turns, in the proportion in which people gave them, because z costs a forward pass.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from datasets import Dataset
from peft import PeftModel
from torch import Tensor
from torch.utils.data import Sampler, SequentialSampler
from transformers import PreTrainedModel
from trl import DPOConfig, DPOTrainer

from rl.base.records import Report, TrainingResult
from rl.config import MPOConfig
from rl.config.training_job import TrainingJob
from rl.lm import processes
from rl.lm.log_probs import PromptAndAnswer, pad_sequences
from rl.lm.own_tokens import count_own
from rl.training import fitting, sft
from rl.training.dpo import OnTokenIds, fit_preferences, preference_arguments
from rl.training.imitating import warm_up
from rl.training.judged_rows import with_judged_rows
from rl.training.kto import at_least_two_rows_a_pass, in_passes_of_a_kind, label_weights, with_other_answers
from rl.training.preparing import Start, encoded_rows, prepare

COLUMNS = ("chosen_ids", "rejected_ids", "other_ids")
REFERENCE = {name: f"ref_{name.removesuffix('_ids')}_logps" for name in COLUMNS}


def train(job: TrainingJob, report: Report) -> TrainingResult:
    began = time.monotonic()
    assert isinstance(job.config, MPOConfig)  # noqa: S101  the method's own
    if not job.config.preferences:
        if job.config.sft_epochs:
            text = "--sft-first changes nothing: accepted answers are imitated, and no preferences follow"
            report("log", {"text": text})
        return sft.train(job, report)
    job = replace(job, config=at_least_two_rows_a_pass(job.config, report))
    job = with_judged_rows(job, report)
    with prepare(job, report, began) as start:
        # rows: prompt_ids, chosen_ids and rejected_ids (null where there is no such answer), weight; on disk
        rows, lengths = encoded_rows(start, "mpo")
        balance = _balance(rows, report)
        # order: fixed from here on, so that z's answers of a pass are known before the trainer runs; only passes with single
        # answers need them, or all where processes that train together must run the same number of passes
        rows = in_passes_of_a_kind(rows.shuffle(seed=int(job.config.seed)), start, _is_single)
        needs = _is_single if processes.count() == 1 else lambda _: True
        rows = with_other_answers(
            rows, start, "other_ids", lambda row: row["chosen_ids"] or row["rejected_ids"], needs=needs
        )
        good = ((row["prompt_ids"], row["chosen_ids"]) for row in iter(rows) if row["chosen_ids"])
        trainer = _trainer(start, warm_up(start, good), rows, balance)
        return fit_preferences(start, trainer, rows, lengths)


@dataclass(frozen=True, slots=True)
class Balance:
    """What liked and disliked single answers weigh, so that all of either weigh the same."""

    good: float = 1.0
    bad: float = 1.0


def _balance(rows: Dataset, report: Report) -> Balance:
    pairs, good, bad = 0, 0.0, 0.0
    for row in iter(rows):
        has_chosen, has_rejected = bool(row["chosen_ids"]), bool(row["rejected_ids"])
        pairs += has_chosen and has_rejected
        good += row["weight"] if has_chosen and not has_rejected else 0.0
        bad += row["weight"] if has_rejected and not has_chosen else 0.0
    # with labels of one kind alone there is nothing to balance
    balance = Balance(*label_weights(good, bad)) if good and bad else Balance()
    counts = f"a liked one counts {balance.good:.2f} times, a disliked one {balance.bad:.2f} times"
    report("log", {"text": f"{pairs} pairs and {len(rows) - pairs} single answers: {counts}"})
    return balance


def _is_single(row: Mapping[str, Any]) -> bool:
    return not (row["chosen_ids"] and row["rejected_ids"])


class _Trainer(OnTokenIds, DPOTrainer):
    """Shapes: B rows of a pass, S answers that they have, T tokens of the longest."""

    REFERENCE = REFERENCE
    ALWAYS_SCORED = True
    balance: Balance
    sft_weight: float

    def _set_signature_columns_if_needed(self) -> None:
        self._signature_columns = ["prompt_ids", "weight", *REFERENCE, *REFERENCE.values()]

    def _get_train_sampler(self, train_dataset: Dataset | None = None) -> Sampler[int]:
        return SequentialSampler(train_dataset or self.train_dataset)

    def _compute_loss(
        self, model: torch.nn.Module, inputs: Mapping[str, Tensor], return_outputs: bool = False
    ) -> Tensor | tuple[Tensor, None]:
        # present (B, 3): whether a row has a chosen and a rejected answer, and another row's for z
        present = inputs["present"]
        learned = present & torch.tensor([True, True, False], device=present.device)
        log_probs = self._log_probs(model, inputs, learned)
        with torch.no_grad():
            of_others = self._log_probs(model, inputs, present & ~learned)
        # r (B, 3): log p / ref of each answer, 0 where there is none
        r = (log_probs + of_others - inputs["reference"]) * present
        # z, one number: how far the model has moved in general
        z = self._mean(r[:, 2], present[:, 2]).clamp(min=0)
        has_chosen, has_rejected = present[:, 0], present[:, 1]
        losses = torch.where(
            has_chosen & has_rejected,
            -F.logsigmoid(self.beta * (r[:, 0] - r[:, 1])),
            torch.where(
                has_chosen,
                self.balance.good * (1 - F.sigmoid(self.beta * (r[:, 0] - z))),
                self.balance.bad * (1 - F.sigmoid(self.beta * (z - r[:, 1]))),
            ),
        )
        # imitation: -log p a token of chosen answers, 0 where there is none
        losses = losses - self.sft_weight * log_probs[:, 0] / inputs["chosen_tokens"].clamp(min=1)
        self._note(r.detach(), present, z)
        loss = (inputs["weight"] * losses).mean()
        return (loss, None) if return_outputs else loss

    def _log_probs(self, model: torch.nn.Module, inputs: Mapping[str, Tensor], wanted: Tensor) -> Tensor:
        """(B, 3): log p of the whole answer where ``wanted`` is true, else 0."""
        result = torch.zeros(wanted.shape, device=wanted.device)
        # the S answers stand column by column: all chosen ones, then all rejected ones, then the others
        of_wanted = wanted.T[inputs["present"].T]
        if not of_wanted.any():
            return result
        width = int(inputs["attention_mask"][of_wanted].sum(1).max())
        parts = {name: inputs[name][of_wanted, :width] for name in ("input_ids", "attention_mask", "labels")}
        output = model(**parts, use_cache=False, fused_lm_head=True)
        columns, rows = wanted.T.nonzero(as_tuple=True)
        return result.index_put((rows, columns), output.log_probs.float().sum(dim=1))

    def _mean(self, values: Tensor, present: Tensor) -> Tensor:
        """The mean of the values that are there, in all processes together; 0 without any."""
        sums = torch.stack([(values * present).sum(), present.sum().float()]).detach()
        total: Tensor = self.accelerator.gather(sums).reshape(-1, 2).sum(0)
        return total[0] / total[1].clamp(min=1)

    def _note(self, r: Tensor, present: Tensor, z: Tensor) -> None:
        metrics, rewards = self._metrics["train" if self.model.training else "eval"], self.beta * r
        metrics["kl"].append(z.item())
        for column, name in enumerate(("chosen", "rejected")):
            if present[:, column].any():
                metrics[f"rewards/{name}"].append(rewards[present[:, column], column].mean().item())
        pairs = present[:, 0] & present[:, 1]
        if pairs.any():
            margins = (rewards[:, 0] - rewards[:, 1])[pairs]
            metrics["rewards/margins"].append(margins.mean().item())
            metrics["rewards/accuracies"].append((margins > 0).float().mean().item())


def collate(examples: list[dict[str, Any]]) -> dict[str, Tensor]:
    """A pass: ``input_ids``, ``attention_mask`` and ``labels``, (S, T), of the answers that are there, all chosen ones
    first; ``present`` and ``reference``, (B, 3), for chosen, rejected and the other answer; ``weight`` and
    ``chosen_tokens``, (B)."""
    present = torch.tensor([[bool(row[name]) for name in COLUMNS] for row in examples])
    sequences: list[PromptAndAnswer] = [
        (row["prompt_ids"], row[name]) for name in COLUMNS for row in examples if row[name]
    ]
    return {
        **pad_sequences(sequences),
        "present": present,
        "reference": torch.tensor([[row[REFERENCE[name]] for name in COLUMNS] for row in examples]),
        "weight": torch.tensor([row["weight"] for row in examples]),
        "chosen_tokens": torch.tensor([count_own(row["chosen_ids"] or ()) for row in examples]),
    }


def _trainer(start: Start, model: PreTrainedModel | PeftModel, rows: Dataset, balance: Balance) -> _Trainer:
    config = start.job.config
    assert isinstance(config, MPOConfig)  # noqa: S101  the method's own
    of_mpo = preference_arguments(config)
    trainer = _Trainer(data_collator=collate, **fitting.parts(start, model, rows, DPOConfig, **of_mpo))
    trainer.balance, trainer.sft_weight = balance, config.sft_weight
    return trainer
