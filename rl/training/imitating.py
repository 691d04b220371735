"""Imitation of good answers: supervised fine-tuning, by TRL's SFTTrainer.

Minimises the mean over rows of -log p(answer | prompt) a token of the answer, so that a long answer counts no more than a
short one. Of structured answers the template's tokens weigh less (template_tokens.py).

Departs from TRL in these ways: rows are token ids already; the loss is a mean of means and not over all tokens of a pass; no
entropy and no token accuracy is measured, which cost the whole vocabulary's scores.

Shapes: B rows of a pass, T tokens of the longest.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from datasets import Dataset, Features, List, Value
from peft import PeftModel
from torch import Tensor
from transformers import PreTrainedModel
from trl import SFTConfig, SFTTrainer
from trl.trainer.utils import disable_dropout_in_model

from rl.config import ImitationConfig, TrainingConfig
from rl.config.automatic import AnswerTraits, in_words, settle_warm_up
from rl.data_formatter.answer_kinds import normalise
from rl.lm.checkpoints import WARM_UP
from rl.lm.encoding import answer_words
from rl.lm.log_probs import PromptAndAnswer, pad_sequences
from rl.lm.own_tokens import plain
from rl.lm.resources import release_memory
from rl.training import fitting
from rl.training.preparing import Start, held_out_rows, write_arrow
from rl.training.template_tokens import WEIGHT, TemplateTokens

COLUMNS: Final = ("prompt_ids", "answer_ids")
RISING_STEPS: Final = 10
"""Steps over which the learning rate rises, or a quarter of a shorter run."""
_FEATURES: Final = Features({name: List(Value("int32")) for name in COLUMNS})


class Imitation(fitting.LooksOnly, SFTTrainer):
    right: Mapping[int, float]
    """Step to the share of right answers that goes into its figures."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.model_accepts_loss_kwargs = False  # passes of a step count alike, and not by their tokens
        self.right = {}
        self._counts = {"train": torch.zeros(3), "eval": torch.zeros(3)}

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Each step has ``tokens``, of prompts and answers, and ``token_accuracy``: the share of those that are learned
        which were the likeliest before."""
        if "eval_loss" in logs:
            logs = {**logs, "eval_token_accuracy": self._take_counts("eval")[1]}
        if "loss" in logs:
            read, accuracy = self._take_counts("train")
            logs = {**logs, "tokens": read, "token_accuracy": accuracy}
            if self.state.global_step in self.right:
                logs["right"] = self.right[self.state.global_step]
        super().log(logs, start_time)

    def _take_counts(self, mode: str) -> tuple[float, float]:
        read, likeliest, learned = self._counts[mode].tolist()
        self._counts[mode].zero_()
        return read, likeliest / max(learned, 1)

    def _set_signature_columns_if_needed(self) -> None:
        self._signature_columns = list(COLUMNS)

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor | tuple[Tensor, None]:
        weights = inputs.pop("weights")[:, 1:]
        output = model(**inputs, use_cache=False, fused_lm_head=True)
        counts = torch.stack([inputs["attention_mask"].sum(), output.is_top1.sum(), output.label_mask.sum()])
        self._counts["train" if model.training else "eval"] += self.accelerator.gather(counts[None]).sum(0).cpu()
        # (B, T - 1): 0 where nothing is learned
        weights = weights * output.label_mask
        # (B): -log p a token, of the tokens that are learned
        losses = -(output.log_probs.float() * weights).sum(1) / weights.sum(1).clamp(min=WEIGHT)
        return (losses.mean(), None) if return_outputs else losses.mean()


def make_trainer(
    start: Start, model: PreTrainedModel | PeftModel, rows: Dataset, config: TrainingConfig, **of_sft: Any
) -> Imitation:
    """``rows``: as ``good_rows`` makes them; ``of_sft``: arguments of TRL's SFTConfig in place of the run's own."""
    fixed: dict[str, Any] = {"max_length": None, "dataset_kwargs": {"skip_prepare_dataset": True}}
    parts = fitting.parts(start, model, rows, SFTConfig, config, "sft", **{**fixed, **of_sft})
    template = TemplateTokens(row["answer_ids"] for row in iter(rows)) if start.job.kind == "structured" else None
    return Imitation(data_collator=partial(collate, template=template), **parts)


def steady_schedule(config: TrainingConfig, rows: int) -> dict[str, Any]:
    """The learning rate rises over a few steps and falls evenly, which is what short runs were measured with."""
    return {"lr_scheduler_type": "linear", "warmup_steps": min(RISING_STEPS, max(1, config.steps(rows) // 4))}


def collate(examples: list[dict[str, Any]], template: TemplateTokens | None = None) -> dict[str, Tensor]:
    """``input_ids``, ``attention_mask``, ``labels`` and ``weights``, (B, T)."""
    batch: dict[str, Tensor] = pad_sequences([(row["prompt_ids"], row["answer_ids"]) for row in examples])
    batch["weights"] = torch.ones(batch["labels"].shape)
    for row, weights in zip(examples, batch["weights"], strict=True):
        begin, answer = len(row["prompt_ids"]), row["answer_ids"]
        weights[begin : begin + len(answer)] = torch.tensor(template.weights(answer) if template else 1.0)
    return batch


def held_out(start: Start) -> Dataset:
    """The accepted answers that were held out."""
    rows = iter(held_out_rows(start, "sft"))
    good = ((row["prompt_ids"], row["chosen_ids"]) for row in rows if row["chosen_ids"])
    return good_rows(start, good, "held-out-good.arrow")


def good_rows(start: Start, good: Iterable[PromptAndAnswer], name: str = "good.arrow") -> Dataset:
    """Each text once, in the order in which it comes, in a file of the scratch folder."""

    def distinct() -> Iterator[dict[str, list[int]]]:
        seen: set[int] = set()
        for prompt, answer in good:
            key = hash((tuple(prompt), tuple(answer)))
            if key not in seen:
                seen.add(key)
                yield {"prompt_ids": list(prompt), "answer_ids": list(answer)}

    return write_arrow(distinct(), start.path(name), _FEATURES)


MOST_TIMES: Final = 4


def repeat_rare(start: Start, good: Dataset) -> Dataset:
    """Rows of rare classes several times, where answers are of a closed set; ``good``, as ``good_rows`` makes it, as it is
    where they are not or the job wants it so. With sixty rows of one class and three of another a model is nearly always
    right that never says the other. Rows are repeated by the square root of how much more frequent the most frequent class
    is (Mahajan et al., 2018, arXiv 1805.00932; capped as by Gupta et al., 2019, arXiv 1908.03195): halfway between what
    people gave and all classes alike, since a few rows that are read too often are learned by heart. Classes up to about
    twice as frequent as each other stay as they are."""
    config = start.job.config
    if start.job.kind != "closed" or not (isinstance(config, ImitationConfig) and config.balance_classes):
        return good
    texts = (answer_words(start.tokenizer, plain(row["answer_ids"])) for row in iter(good))
    classes = [normalise(text) for text in texts]
    repeats = count_repeats(Counter(classes))
    order = [number for number, name in enumerate(classes) for _ in range(repeats.get(name, 1))]
    return good.select(order) if repeats else good


def count_repeats(count: Mapping[str, int]) -> dict[str, int]:
    """Class to how often its rows are learned in a pass, where that is more than once."""
    most = max(count.values(), default=0)
    times = {name: min(MOST_TIMES, round(math.sqrt(most / number))) for name, number in count.items()}
    return {name: number for name, number in times.items() if number > 1}


def load_untrained(start: Start, source: Path | None = None) -> PreTrainedModel:
    """The model in ``source``, or the base model, without dropout; TRL's switch would turn off the adapter's too."""
    model = start.model(source=source)
    disable_dropout_in_model(model)
    return model


def warm_up(start: Start, good: Iterable[PromptAndAnswer], kind: str = "") -> PreTrainedModel | PeftModel:
    """The model that has imitated the good answers: itself, or with a trainable adapter; the base model where the job does
    not ask for it. ``kind``: of the answers, where it is not the job's. The result is kept in ``output_dir/warm-up``, so a
    resumed run does not imitate again. Preferences between answers that the model would never give teach little; a short
    imitation of the good ones first makes them likely (Ouyang et al., 2022)."""
    config, target = start.job.config, start.job.output_dir / WARM_UP
    if not config.sft_epochs:
        return load_untrained(start)
    if config.full:
        if not target.exists():
            _imitate(start, load_untrained(start), good, kind)
            release_memory()
        return load_untrained(start, target)
    model = load_untrained(start)
    if not target.exists():
        model = _imitate(start, model, good, kind).unload()
    start.report("stage", {"name": "preparing"})
    return PeftModel.from_pretrained(model, str(target), is_trainable=True)


def _imitate(
    start: Start, model: PreTrainedModel, good: Iterable[PromptAndAnswer], kind: str
) -> PreTrainedModel | PeftModel:
    """Leaves in the folder what was trained, and returns the whole of it."""
    job, rows = start.job, good_rows(start, good)
    answers = AnswerTraits(kind or job.kind, len({tuple(row["answer_ids"]) for row in iter(rows)}))
    config = settle_warm_up(job.config, len(rows), model.config.get_text_config().hidden_size, answers)
    trainer = make_trainer(start, model, rows, config, save_strategy="no", **steady_schedule(config, len(rows)))
    how = f"for {config.epochs:g} passes, learning rate {in_words(config.learning_rate)}"
    start.report("log", {"text": f"imitates {len(rows)} good answers first, {how}"})
    with fitting.fast_passes(start, trainer.model):
        fitting.fit(trainer, job, None, start.report, stage="imitating good answers")
    fitting.publish(trainer, start, WARM_UP)
    return trainer.accelerator.unwrap_model(trainer.model)
