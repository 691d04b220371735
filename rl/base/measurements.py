"""What the evaluation measures of models."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Distance:
    """How far a model has moved from its base model, by answers of both to the same prompts; nats a token."""

    kl: float
    """Kullback-Leibler divergence from the base model, at the tokens of the model's own answers."""
    likelihood: float
    """Mean log-probability of these tokens under the base model."""
    base_likelihood: float
    """The same of the base model's own answers."""
    chosen_likelihood: float | None = None
    """The same of the answers that people prefer; None where none are stored."""


@dataclass(frozen=True, slots=True)
class PairScore:
    """What one model thinks of one held-out pair: natural-log probabilities of whole answers, given the prompt, or these
    less what a reference gives them."""

    prompt_key: str
    chosen_logp: float
    rejected_logp: float
    chosen_tokens: int = 0
    """0 where they were not counted."""
    rejected_tokens: int = 0

    @property
    def margin(self) -> float:
        return self.chosen_logp - self.rejected_logp

    def relative_to(self, reference: PairScore) -> PairScore:
        """Less what the reference gives both answers, as in DPO's implicit reward: without that, the longer answer is the
        less likely one, and answers to two prompts say nothing."""
        chosen, rejected = self.chosen_logp - reference.chosen_logp, self.rejected_logp - reference.rejected_logp
        return replace(self, chosen_logp=chosen, rejected_logp=rejected)

    @property
    def token_margin(self) -> float | None:
        """The difference of the means over tokens; None where tokens were not counted."""
        if not (self.chosen_tokens and self.rejected_tokens):
            return None
        return self.chosen_logp / self.chosen_tokens - self.rejected_logp / self.rejected_tokens

    @property
    def credit(self) -> float:
        """1 for the right order, 0.5 for none, as the reference itself has it, else 0."""
        if self.chosen_logp == self.rejected_logp:
            return 0.5
        return float(self.chosen_logp > self.rejected_logp)


@dataclass(frozen=True, slots=True)
class Interval:
    """A point estimate with its confidence interval."""

    value: float
    low: float
    high: float
