"""A look at the answers while an adapter trains, so that a run stops before it breaks the model.

A few prompts of the training rows are answered a few times on the way, always with the likeliest token. From that come how
likely the base model finds the answers, the length, and how many answers degenerate that did not before. The steps since the
last look tell whether chosen answers became much less likely too, which preferring them does not forbid.

What is said is measured by what people want: answers of a job are far from what the base model would say, and so are those
that people chose. Where the answers are far less likely than both its own and people's, half of them have degenerated, or
chosen answers collapse, the weights of the last good look come back and the training ends: nothing that follows would be
better. How far the answers have moved from the base model is told, and ends nothing unless the job sets a limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from datasets import Dataset
from peft import PeftModel, get_peft_model_state_dict, set_peft_model_state_dict
from torch import Tensor
from transformers import PreTrainedTokenizerBase, TrainerCallback, TrainerControl, TrainerState

from rl.base.errors import TrainingFailed
from rl.config import TrainingConfig
from rl.data_formatter.degeneration import repeats
from rl.lm import processes
from rl.lm.divergence import divergence, likelihood, log_probs_of, mean_of
from rl.lm.generating import Ids, likeliest
from rl.lm.loading import base_within
from rl.lm.own_tokens import plain
from rl.training.preparing import Start

PROMPTS = 4
SHOWN = 80
"""Characters of an answer."""
LOOKS = 5
"""In a run."""
FEWEST_STEPS = 10
"""Between two looks."""
TOKENS = 48
"""The most of an answer: a loop shows in so many."""
TOKENS_OF_A_CHOICE = 16
"""The same where answers are from a closed set: these are a word or two."""
ADAPTER = "default"
STILL = 0.02
"""Nats a token: a model that has moved no further repeats itself as its base does, by the luck of a tie."""
MOST_UNLIKELY = 2.0
"""Nats a token by which the answers may be less likely, under the base model, than both its own and people's."""
MOST_KNOWN = 2000
"""Rows whose answers are known."""
MOST_LOST = 50.0
"""Nats by which chosen answers may have become less likely, in the mean: some nats are usual, and where they were e^50 times
as likely before, nothing like them will be said again."""


@dataclass(frozen=True, slots=True)
class TrainingLook:
    words: float
    """Mean, of an answer."""
    repeating: tuple[bool, ...]
    kl: float
    """Nats a token; 0 where there are no answers."""
    likelihood: float | None
    """Mean log-probability a token of the answers under the base model, without those that people gave too; None without
    any."""
    example: str
    """One answer, a repeating one where there is any."""

    def describe(self, before: TrainingLook, step: int) -> str:
        worse = self.worse_than(before)
        broken = f", {worse} of {len(self.repeating)} repeat themselves" if worse else ""
        length = f"answers of {self.words:.0f} words, {before.words:.0f} before"
        return f"step {step}: {length}, {self.kl:.3f} nats a token from the base model{broken}"

    def worse_than(self, before: TrainingLook) -> int:
        """Answers that repeat themselves and did not before."""
        return sum(new and not old for new, old in zip(self.repeating, before.repeating, strict=True))


class TrainingWatch(TrainerCallback):
    """Keeps the adapter of the last good look in memory. After a resumed start there is none until the next look."""

    def __init__(
        self, start: Start, model: PeftModel, good: Mapping[tuple[int, ...], Ids], known: Set[tuple[int, ...]]
    ) -> None:
        """``good``: the prompts, each with an answer that people prefer; empty where there is none. ``known``: answers that
        people prefer, which are not strange however unlikely they are."""
        self._model, self._prompts, self._report = model, [list(prompt) for prompt in good], start.report
        self._preferred = [(list(prompt), answer) for prompt, answer in good.items() if answer]
        self._known, self._least = known, -math.inf
        self._tokenizer: PreTrainedTokenizerBase = start.tokenizer
        self._tokens = TOKENS_OF_A_CHOICE if start.job.kind == "closed" else TOKENS
        self._limit = float(start.job.config.most_kl)
        self._before: TrainingLook | None = None
        self._good: tuple[int, dict[str, Tensor]] | None = None
        self._beta = float(start.job.config.beta)
        self._chosen: list[float] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if logs and self._beta and "rewards/chosen" in logs:
            self._chosen.append(logs["rewards/chosen"] / self._beta)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        with self._model.disable_adapter():
            self._before = self._look(moved=False)
            preferred = likelihood(base_within(self._model), self._preferred)
        if self._known:  # else nobody says how strange an answer may be
            likely = [value for value in (self._before.likelihood, preferred) if value is not None]
            self._least = min(likely) - MOST_UNLIKELY

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        step, last = state.global_step, state.max_steps
        every = max(FEWEST_STEPS, math.ceil(last / LOOKS))
        if self._before is None or (step % every and step != last):
            return
        look = self._look()
        self._report("log", {"text": look.describe(self._before, step)})
        if reason := self._why_broken(look):
            self._take_back(step, f"{reason}; it answers, for one, {look.example[:SHOWN]!r}")
            control.should_training_stop = True
            return
        state_dict = get_peft_model_state_dict(self._model, adapter_name=ADAPTER, save_embedding_layers=False)
        self._good = (step, {name: value.detach().clone() for name, value in state_dict.items()})

    def _look(self, moved: bool = True) -> TrainingLook:
        training = self._model.training
        self._model.eval()
        try:
            answers = likeliest(self._model, self._tokenizer, self._prompts, self._tokens)
            sequences, base = list(zip(self._prompts, answers, strict=True)), base_within(self._model)
            if moved:
                kl, log_probs = divergence(base, self._model, sequences) or (0.0, {})
            else:
                kl, log_probs = 0.0, log_probs_of(base, sequences)
        finally:
            self._model.train(training)
        texts = [self._tokenizer.decode(ids, skip_special_tokens=True) for ids in answers]
        loops = tuple(repeats(text, ended=len(ids) < self._tokens) for text, ids in zip(texts, answers, strict=True))
        strange = {number: of for number, of in log_probs.items() if tuple(answers[number]) not in self._known}
        example = next((text for text, loop in zip(texts, loops, strict=True) if loop), texts[0])
        return TrainingLook(fmean(len(text.split()) for text in texts), loops, kl, mean_of(strange), example)

    def _why_broken(self, look: TrainingLook) -> str:
        assert self._before is not None  # noqa: S101  the first look comes before the first step
        if not math.isfinite(look.kl) or look.kl > self._limit:
            return f"the answers are {look.kl:.2f} nats a token from the base model, more than {self._limit:g}"
        chosen, self._chosen = self._chosen, []
        if chosen and (lost := -fmean(chosen)) > MOST_LOST:
            return f"chosen answers are {lost:.0f} nats less likely than under the base model"
        if look.likelihood is not None and look.likelihood < self._least:
            least = f"{self._least:.2f} would be as strange as people's answers get"
            return f"the base model gives a token of the answers {look.likelihood:.2f} nats, and {least}"
        worse = look.worse_than(self._before) if look.kl > STILL else 0
        many = worse and 2 * worse >= len(look.repeating)
        return f"{worse} of {len(look.repeating)} answers repeat themselves" if many else ""

    def _take_back(self, step: int, reason: str) -> None:
        if self._good is None:
            raise TrainingFailed(
                f"the model broke within the first {step} steps: {reason}; lower learning_rate, or hold it nearer to the "
                "base model with a larger beta"
            )
        good, weights = self._good
        set_peft_model_state_dict(self._model, weights, adapter_name=ADAPTER)
        self._report("log", {"text": f"stopped at step {step}, the weights of step {good} are kept: {reason}"})


def watch(start: Start, model: Any, rows: Dataset, *, imitates: bool = False) -> list[TrainingWatch]:
    """Empty where the job asks for none, weights are all trained, or several processes train together. ``imitates``: on the
    way from its own answers to people's a model says what neither would, and no look minds how unlikely that is."""
    config: TrainingConfig = start.job.config
    if not config.most_kl or not isinstance(model, PeftModel) or processes.count() > 1:
        return []
    prompts: dict[tuple[int, ...], Ids] = {}
    known: set[tuple[int, ...]] = set()
    for row in iter(rows.select(range(min(len(rows), MOST_KNOWN)))):
        preferred = row.get("completion_ids") if row.get("label") else row.get("chosen_ids") or row.get("answer_ids")
        answer = plain(preferred or ())
        if len(prompts) < PROMPTS:
            prompts.setdefault(tuple(row["prompt_ids"]), answer)
        if answer and not imitates:
            known.add(tuple(answer))
    return [TrainingWatch(start, model, prompts, known)]
