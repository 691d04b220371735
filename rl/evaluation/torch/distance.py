"""How far a new model has moved from its base model, by its own answers, those of the base, and those that people prefer."""

from dataclasses import dataclass, field

import torch
from transformers import PreTrainedModel

from rl.base.measurements import Distance, Fit
from rl.lm.divergence import LogProbs, Sequences, divergence, fit_to_prompts, log_probs_of, mean_of, without_adapter


@dataclass(slots=True)
class DistanceMeter:
    """Takes the token ids of prompts and answers while the models are loaded."""

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
