"""What models say to a few prompts while they are loaded to be scored, and how far the new one has moved from its base."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rl.base.measurements import Distance
from rl.base.records import Choosing, GeneratedAnswer, Report
from rl.lm import loading
from rl.lm.choosing import choose_for_rows
from rl.lm.divergence import divergence, likelihood
from rl.lm.encoding import PAIR, answer_text, encode
from rl.lm.generating import Ids, likeliest
from rl.lm.lengths import room_for_an_answer
from rl.lm.log_probs import TOKENS_PER_BATCH, batches
from rl.lm.own_tokens import plain
from rl.lm.packed_layers import packed_layers

WhileLoaded = Callable[[str, PreTrainedTokenizerBase, PreTrainedModel, torch.nn.Module], None]
"""Gets a model's name, the tokenizer, the base model, and the model itself: with an adapter in place, another whole model,
or the base model again."""


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
    ) -> None:
        """``rows``: with a ``prompt``, ``tools`` where they are offered, and ``chosen`` and ``rejected`` where answers are
        stored; ``most``: tokens; ``measured``: how many of the first rows' answers tell how far the model has moved, None
        for all; ``choosing``: where answers are chosen from a set; ``schema``: where they keep to one."""
        self.answers: dict[str, list[GeneratedAnswer | None]] = {}
        """The answers of each model, one for each row; None where the prompt leaves no room."""
        self.most: dict[str, int] = {}
        """Tokens that each model was given for an answer."""
        self._moved: tuple[float, float] | None = None
        """The model "new": its divergence from its base, and the likelihood of its answers under the base."""
        self._base_likelihood: float | None = None
        self._chosen_likelihood: float | None = None
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
        most = room_for_an_answer(self._most, stored)
        fits = min(self._max_length, loading.context_length(base.config)) - most
        asked = {number: row.get("prompt_ids", ()) for number, row in enumerate(encoded)}
        prompts = {number: ids for number, ids in asked.items() if 0 < len(ids) <= fits}
        with packed_layers(model):
            if self._choosing:
                calibrated = name == "base" and not self._choosing.by_model_alone
                answers = self._choose(self._choosing, model, tokenizer, prompts, calibrated=calibrated)
            else:
                answers = self._answer(model, tokenizer, prompts, most)
        texts = {number: answer_text(tokenizer, self._rows[number], ids) for number, ids in answers.items()}
        self.most[name] = most
        self.answers[name] = [
            GeneratedAnswer(texts[number], len(prompts[number]), len(answers[number])) if number in answers else None
            for number in range(len(encoded))
        ]
        # distance: on each model's own answers, while both models are loaded
        sequences = [(prompts[number], ids) for number, ids in answers.items() if number < self._measured]
        if name == "new":
            self._moved = divergence(base, model, sequences)
        elif name == "base":
            self._base_likelihood = likelihood(base, sequences)
            chosen = [
                (ids, encoded[number].get("chosen_ids")) for number, ids in prompts.items() if number < self._measured
            ]
            self._chosen_likelihood = likelihood(base, [(ids, plain(answer)) for ids, answer in chosen if answer])

    @property
    def divergence(self) -> float | None:
        """How far the model "new" is from its base, in nats a token; None before it has answered, and without an answer."""
        return self._moved[0] if self._moved else None

    @property
    def distance(self) -> Distance | None:
        """How far the model "new" is from its base; None before both have answered, and without an answer."""
        if self._moved is None or self._base_likelihood is None:
            return None
        return Distance(*self._moved, self._base_likelihood, self._chosen_likelihood)

    def _choose(
        self,
        choosing: Choosing,
        model: torch.nn.Module,
        tokenizer: PreTrainedTokenizerBase,
        prompts: Mapping[int, Ids],
        *,
        calibrated: bool,
    ) -> dict[int, Ids]:
        """An adapter has learned how frequent each answer is: only the base model's are calibrated."""
        rows, asked = [self._rows[number] for number in prompts], list(prompts.values())
        chosen = choose_for_rows(model, tokenizer, rows, asked, choosing, calibrated=calibrated)
        return {number: ids for number, (_, ids) in zip(prompts, chosen, strict=True)}

    def _answer(
        self, model: torch.nn.Module, tokenizer: PreTrainedTokenizerBase, prompts: Mapping[int, Ids], most: int
    ) -> dict[int, Ids]:
        numbers = list(prompts)
        lengths = [len(prompts[number]) + most for number in numbers]
        answers: dict[int, Ids] = {}
        for batch in batches(lengths, TOKENS_PER_BATCH[loading.device().type]):
            batch_numbers = [numbers[index] for index in batch]
            generated = likeliest(model, tokenizer, [prompts[number] for number in batch_numbers], most, self._schema)
            answers |= dict(zip(batch_numbers, generated, strict=True))
            self._report("step", {"step": len(answers), "total_steps": len(numbers), "metrics": {}})
        return answers
