"""Which pairs to build."""

from __future__ import annotations

from dataclasses import dataclass

from rl.base.errors import UsageError

PAIR_TYPES = ("widget", "fixture", "preference", "both")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataOptions:
    """Which pairs to build. Raises UsageError for a value out of range."""

    pair_type: str = "preference"
    """widget, fixture, preference, or both: widget and fixture."""
    max_pairs_per_question: int = 5
    """So that one much-rated question does not outweigh the others."""
    val_split: float = 0.2
    """Share of the prompts that is held out, 0 to 0.9."""
    min_confidence: float = 0.5
    """Least share of an answer's raters that agree, 0.5 to 1; answers below it are left out."""
    min_samples: int = 10
    """Fewest pairs, train and held-out together, that are worth a run."""

    def __post_init__(self) -> None:
        if self.pair_type not in PAIR_TYPES:
            raise UsageError(f"pair_type must be one of {', '.join(PAIR_TYPES)}, not {self.pair_type!r}")
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
                raise UsageError(f"{name} must be a number from {low:g} to {high:g}, not {value!r}")
        for name in ("max_pairs_per_question", "min_samples"):
            if int(getattr(self, name)) != getattr(self, name):
                raise UsageError(f"{name} must be a whole number, not {getattr(self, name)!r}")


_RANGES: tuple[tuple[str, float, float], ...] = (
    ("max_pairs_per_question", 1, 1000),
    ("val_split", 0, 0.9),
    ("min_confidence", 0.5, 1),
    ("min_samples", 1, 100_000_000),
)
