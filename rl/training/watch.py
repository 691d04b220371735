"""A look at the answers while an adapter trains, so that a run stops before it breaks the model.

A few prompts of the training rows are answered a few times on the way, always with the likeliest token. From that come the
divergence from the base model in nats a token, the length, and how many answers degenerate that did not before. The steps
since the last look tell whether chosen answers became much less likely too, which preferring them does not forbid. Where
the divergence passes the limit, half of the answers have degenerated, or chosen answers collapse, the weights of the last
good look come back and the training ends: nothing that follows would be better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from datasets import Dataset
from peft import PeftModel, get_peft_model_state_dict, set_peft_model_state_dict
from torch import Tensor
from transformers import PreTrainedTokenizerBase, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from rl.base.errors import TrainingFailed
from rl.config import TrainingConfig
from rl.data_formatter.degeneration import repeats
from rl.lm import processes
from rl.lm.divergence import divergence
from rl.lm.generating import Ids, likeliest
from rl.lm.loading import base_within
from rl.training.preparing import Start

PROMPTS = 4
LOOKS = 5
"""In a run."""
FEWEST_STEPS = 10
"""Between two looks."""
TOKENS = 48
"""The most of an answer: a loop shows in so many."""
ADAPTER = "default"
MOST_LOST = 50.0
"""Nats by which chosen answers may have become less likely, in the mean: some nats are usual, and where they were e^50 times
as likely before, nothing like them will be said again."""


@dataclass(frozen=True, slots=True)
class Look:
    words: float
    """Mean, of an answer."""
    repeating: tuple[bool, ...]
    kl: float
    """Nats a token; 0 where there are no answers."""

    def describe(self, before: Look, step: int) -> str:
        worse = self.worse_than(before)
        broken = f", {worse} of {len(self.repeating)} repeat themselves" if worse else ""
        length = f"answers of {self.words:.0f} words, {before.words:.0f} before"
        return f"step {step}: {length}, {self.kl:.3f} nats a token from the base model{broken}"

    def worse_than(self, before: Look) -> int:
        """Answers that repeat themselves and did not before."""
        return sum(new and not old for new, old in zip(self.repeating, before.repeating, strict=True))


class Watch(TrainerCallback):
    """Keeps the adapter of the last good look in memory. After a resumed start there is none until the next look."""

    def __init__(self, start: Start, model: PeftModel, prompts: Sequence[Ids]) -> None:
        self._model, self._prompts, self._report = model, prompts, start.report
        self._tokenizer: PreTrainedTokenizerBase = start.tokenizer
        self._limit = float(start.job.config.most_kl)
        self._before: Look | None = None
        self._good: tuple[int, dict[str, Tensor]] | None = None
        self._beta = float(start.job.config.beta)
        self._chosen: list[float] = []

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if logs and self._beta and "rewards/chosen" in logs:
            self._chosen.append(logs["rewards/chosen"] / self._beta)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        with self._model.disable_adapter():
            self._before = self._look(moved=False)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        step, last = state.global_step, state.max_steps
        every = max(FEWEST_STEPS, math.ceil(last / LOOKS))
        if self._before is None or (step % every and step != last):
            return
        look = self._look()
        self._report("log", {"text": look.describe(self._before, step)})
        if reason := self._why_broken(look):
            self._take_back(step, reason)
            control.should_training_stop = True
            return
        state_dict = get_peft_model_state_dict(self._model, adapter_name=ADAPTER, save_embedding_layers=False)
        self._good = (step, {name: value.detach().clone() for name, value in state_dict.items()})

    def _look(self, moved: bool = True) -> Look:
        training = self._model.training
        self._model.eval()
        try:
            answers = likeliest(self._model, self._tokenizer, self._prompts, TOKENS)
            sequences = list(zip(self._prompts, answers, strict=True))
            measured = divergence(base_within(self._model), self._model, sequences) if moved else None
        finally:
            self._model.train(training)
        texts = [self._tokenizer.decode(ids, skip_special_tokens=True) for ids in answers]
        loops = tuple(repeats(text, ended=len(ids) < TOKENS) for text, ids in zip(texts, answers, strict=True))
        return Look(fmean(len(text.split()) for text in texts), loops, measured[0] if measured else 0.0)

    def _why_broken(self, look: Look) -> str:
        assert self._before is not None  # noqa: S101  the first look comes before the first step
        if not math.isfinite(look.kl) or look.kl > self._limit:
            return f"the answers are {look.kl:.2f} nats a token from the base model, more than {self._limit:g}"
        chosen, self._chosen = self._chosen, []
        if chosen and (lost := -fmean(chosen)) > MOST_LOST:
            return f"chosen answers are {lost:.0f} nats less likely than under the base model"
        worse = look.worse_than(self._before)
        return f"{worse} of {len(look.repeating)} answers repeat themselves" if 2 * worse >= len(look.repeating) else ""

    def _take_back(self, step: int, reason: str) -> None:
        if self._good is None:
            raise TrainingFailed(
                f"the model broke within the first {step} steps: {reason}; lower learning_rate, or hold it nearer to the "
                "base model with a larger beta"
            )
        good, weights = self._good
        set_peft_model_state_dict(self._model, weights, adapter_name=ADAPTER)
        self._report("log", {"text": f"stopped at step {step}, the weights of step {good} are kept: {reason}"})


def watch(start: Start, model: Any, rows: Dataset) -> list[Watch]:
    """Empty where the job asks for none, weights are all trained, or several processes train together."""
    config: TrainingConfig = start.job.config
    if not config.most_kl or not isinstance(model, PeftModel) or processes.count() > 1:
        return []
    prompts: dict[tuple[int, ...], None] = {}
    for row in iter(rows):
        prompts.setdefault(tuple(row["prompt_ids"]))
        if len(prompts) == PROMPTS:
            break
    return [Watch(start, model, [list(prompt) for prompt in prompts])]
