"""What each model answers to held-out prompts: one answer each, always the likeliest token, so that it is the same again;
and how far the new one has moved from its base."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rl.base.manner import ASKED_PLAINLY, Manner
from rl.base.measurements import Distance, Fit
from rl.base.records import Choosing, GeneratedAnswer, Report
from rl.lm import loading
from rl.lm.choosing import choose_for_rows
from rl.lm.divergence import LogProbs, Sequences, divergence, fit_to_prompts, log_probs_of, mean_of, without_adapter
from rl.lm.encoding import PAIR, answer_text, encode
from rl.lm.generating import Ids, likeliest
from rl.lm.lengths import room_for_an_answer
from rl.lm.log_probs import TOKENS_PER_BATCH, batches
from rl.lm.own_tokens import plain
from rl.lm.packed_layers import packed_layers
from rl.lm.resources import resource_advice

WhileLoaded = Callable[[str, PreTrainedTokenizerBase, PreTrainedModel, torch.nn.Module], None]
"""Gets a model's name, the tokenizer, the base model, and the model itself: with an adapter in place, another whole model,
or the base model again."""


def answer_versions(
    base_model: str,
    adapters: Mapping[str, Path | None],
    rows: Sequence[Mapping[str, Any]],
    *,
    max_length: int,
    max_new_tokens: int,
    report: Report,
    manner: Manner = ASKED_PLAINLY,
    also: WhileLoaded | None = None,
) -> dict[str, list[GeneratedAnswer | None]]:
    """Answers to the same prompts under each adapter or whole model, None being the base model, which is loaded once.

    A row has a ``prompt``, a list of messages, and ``tools`` where they are offered; each list has one place for each row,
    in their order, with None where the prompt leaves no room for ``max_new_tokens``. ``also`` is called for each model while
    it is loaded. Raises UsageError for a base model that is none, and TrainingFailed for a model or an adapter that cannot
    be loaded."""
    tokenizer, model = loading.open_model(base_model, report, manner=manner)
    room = min(max_length, loading.context_length(model.config)) - max_new_tokens
    prompts = _fitting(encode(tokenizer, rows, len(rows), report, ()), room)
    if too_long := len(rows) - len(prompts):
        report("log", {"text": f"{too_long} of {len(rows)} held-out prompts are too long, or refused; not asked"})
    answers_of: dict[str, list[GeneratedAnswer | None]] = {}
    for name, adapter in adapters.items():
        report("stage", {"name": f"answering as {name}"})
        with resource_advice(), loading.with_weights(model, adapter) as adapted:
            with packed_layers(adapted):
                answers = _generate(adapted, tokenizer, prompts, max_new_tokens, report)
            answers_of[name] = _read(tokenizer, rows, prompts, answers)
            if also:
                also(name, tokenizer, model, adapted)
    return answers_of


def _fitting(encoded: Iterable[Mapping[str, Any]], room: int) -> dict[int, Ids]:
    """Number of a row to the tokens of its prompt, of those that leave room for a whole answer."""
    asked = ((number, row.get("prompt_ids", ())) for number, row in enumerate(encoded))
    return {number: ids for number, ids in asked if 0 < len(ids) <= room}


def _generate(
    model: torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Mapping[int, Ids],
    most: int,
    report: Report,
    schema: Mapping[str, Any] | None = None,
) -> dict[int, Ids]:
    """By the numbers of the prompts."""
    numbers = list(prompts)
    lengths = [len(prompts[number]) + most for number in numbers]
    answers: dict[int, Ids] = {}
    for batch in batches(lengths, TOKENS_PER_BATCH[loading.device().type]):
        batch_numbers = [numbers[index] for index in batch]
        generated = likeliest(model, tokenizer, [prompts[number] for number in batch_numbers], most, schema)
        answers |= dict(zip(batch_numbers, generated, strict=True))
        report("step", {"step": len(answers), "total_steps": len(numbers), "metrics": {}})
    return answers


def _read(
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[Mapping[str, Any]],
    prompts: Mapping[int, Ids],
    answers: Mapping[int, Ids],
) -> list[GeneratedAnswer | None]:
    """One for each row; None where its number has no answer."""
    return [
        GeneratedAnswer(answer_text(tokenizer, row, answers[number]), len(prompts[number]), len(answers[number]))
        if number in answers
        else None
        for number, row in enumerate(rows)
    ]


@dataclass(slots=True)
class DistanceMeter:
    """How far a new model has moved from its base model, by its own answers, those of the base, and those that people
    prefer: takes the token ids of prompts and answers while the models are loaded."""

    measures_fit: bool
    """Whether to tell how well answers fit their prompts, for which the base model reads each answer some times more."""
    divergence: float | None = field(default=None, init=False)
    """How far the new model has moved, in nats a token; None before it has answered, and without an answer."""
    _likelihoods: dict[str, float | None] = field(default_factory=dict, init=False)
    """How likely the base model finds the answers of "new", of "base", and those "chosen"."""
    _fits: dict[str, float | None] = field(default_factory=dict, init=False)

    def take_new(self, base: PreTrainedModel, model: torch.nn.Module, sequences: Sequences) -> None:
        if moved := divergence(base, model, sequences):
            self.divergence, own = moved
            with without_adapter(model):
                self._take("new", base, sequences, own)

    def take_base(self, base: PreTrainedModel, own: Sequences, chosen: Sequences) -> None:
        """What the base model answers itself, and what people prefer."""
        for whose, sequences in (("base", own), ("chosen", chosen)):
            self._take(whose, base, sequences, log_probs_of(base, sequences))

    def _take(self, whose: str, base: PreTrainedModel, sequences: Sequences, own: LogProbs) -> None:
        self._likelihoods[whose] = mean_of(own)
        if self.measures_fit:
            self._fits[whose] = fit_to_prompts(base, sequences, own)

    @property
    def distance(self) -> Distance | None:
        """None before both have answered, and without an answer."""
        new, base, chosen = (self._likelihoods.get(whose) for whose in ("new", "base", "chosen"))
        if self.divergence is None or new is None or base is None:
            return None
        return Distance(self.divergence, new, base, chosen, self._fit)

    @property
    def _fit(self) -> Fit | None:
        new, base, chosen = (self._fits.get(whose) for whose in ("new", "base", "chosen"))
        return None if new is None or base is None or chosen is None else Fit(new, base, chosen)


class Speaker:
    """Asks each model once, for its likeliest tokens."""

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        max_length: int,
        most: int,
        report: Report,
        measured: int | None = None,
        choosing: Choosing | None = None,
        schema: Mapping[str, Any] | None = None,
        measures_fit: bool = False,
    ) -> None:
        """``rows``: with a ``prompt``, ``tools`` where they are offered, and ``chosen`` and ``rejected`` where answers are
        stored; ``most``: tokens; ``measured``: how many of the first rows' answers tell how far the model has moved, None
        for all; ``choosing``: where answers are chosen from a set; ``schema``: where they keep to one; ``measures_fit``:
        of a DistanceMeter."""
        self.answers: dict[str, list[GeneratedAnswer | None]] = {}
        """The answers of each model, one for each row; None where the prompt leaves no room."""
        self.most: dict[str, int] = {}
        """Tokens that each model was given for an answer."""
        self.meter = DistanceMeter(measures_fit)
        self._rows, self._max_length, self._most, self._report = rows, max_length, most, report
        self._measured = len(rows) if measured is None else measured
        self._choosing, self._schema = choosing, schema

    def __call__(
        self, name: str, tokenizer: PreTrainedTokenizerBase, base: PreTrainedModel, model: torch.nn.Module
    ) -> None:
        self._report("stage", {"name": f"fresh answers: {name}"})
        # room: as long as the stored answers suggest, so the prompts that are asked do not depend on the model
        encoded = list(encode(tokenizer, self._rows, len(self._rows), self._report, PAIR))
        stored = [len(ids) for row in encoded for column in PAIR if (ids := row.get(f"{column}_ids"))]
        most = self.most[name] = room_for_an_answer(self._most, stored)
        prompts = _fitting(encoded, min(self._max_length, loading.context_length(base.config)) - most)
        with packed_layers(model):
            if self._choosing:
                # an adapter has learned how frequent each answer is: only the base model's are calibrated
                calibrated = name == "base" and not self._choosing.by_model_alone
                rows, asked = [self._rows[number] for number in prompts], list(prompts.values())
                chosen = choose_for_rows(model, tokenizer, rows, asked, self._choosing, calibrated=calibrated)
                answers = {number: ids for number, (_, ids) in zip(prompts, chosen, strict=True)}
            else:
                answers = _generate(model, tokenizer, prompts, most, self._report, self._schema)
        self.answers[name] = _read(tokenizer, self._rows, prompts, answers)
        # while both models are loaded
        sequences = [(prompts[number], ids) for number, ids in answers.items() if number < self._measured]
        if name == "new":
            self.meter.take_new(base, model, sequences)
        elif name == "base":
            preferred = [
                (ids, plain(answer))
                for number, ids in prompts.items()
                if number < self._measured and (answer := encoded[number].get("chosen_ids"))
            ]
            self.meter.take_base(base, sequences, preferred)
