"""What the evaluation measures of models."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist


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
    fit: Fit | None = None
    """None where it was not measured."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How often the base model finds an answer likelier behind its own prompt than behind another one, 0 to 1: whatever an
    answer says that has to do with its question makes it so, and what could be said to any question does not."""

    new: float
    base: float
    """The same of the base model's own answers."""
    chosen: float
    """The same of those that people prefer."""


@dataclass(frozen=True, slots=True)
class PairScore:
    """What one model thinks of one held-out pair: natural-log probabilities of whole answers, given the prompt, or these
    less what a reference gives them."""

    prompt_key: str
    chosen_logp: float
    rejected_logp: float
    chosen_tokens: int = 0
    """0 where they were not counted."""

    @property
    def margin(self) -> float:
        return self.chosen_logp - self.rejected_logp

    def relative_to(self, reference: PairScore) -> PairScore:
        """Less what the reference gives both answers, as in DPO's implicit reward: without that, the longer answer is the
        less likely one, and answers to two prompts say nothing."""
        chosen, rejected = self.chosen_logp - reference.chosen_logp, self.rejected_logp - reference.rejected_logp
        return replace(self, chosen_logp=chosen, rejected_logp=rejected)

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


def wilson(successes: float, n: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval for a proportion. Raises ValueError for no trials or successes outside 0 to n."""
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"{successes} successes in {n} trials")
    z = z_of(confidence)
    share = successes / n
    # (p + z^2 / 2n +- z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n), p the share
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return Interval(share, max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half)))


@lru_cache
def z_of(confidence: float) -> float:
    """Two-sided critical value of the normal distribution. Raises ValueError."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    return NormalDist().inv_cdf((1 + confidence) / 2)
