"""Which pairs to build."""

from dataclasses import dataclass

from rl.base.errors import UsageError
from rl.config.base import check_numbers
from rl.config.fields import within

PAIR_TYPES = ("widget", "fixture", "preference", "both")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataOptions:
    """Which pairs to build. Raises UsageError for a value out of range."""

    pair_type: str = "preference"
    """widget, fixture, preference, or both: widget and fixture."""
    max_pairs_per_question: int = within(1, 1000, 5)
    """So that one much-rated question does not outweigh the others."""
    val_split: float = within(0, 0.9, 0.2)
    """Share of the prompts that is held out, 0 to 0.9."""
    min_confidence: float = within(0.5, 1, 0.5)
    """Least share of an answer's raters that agree, 0.5 to 1; answers below it are left out."""
    min_samples: int = within(1, 100_000_000, 10)
    """Fewest pairs, train and held-out together, that are worth a run."""
    sessions: tuple[str, ...] = ()
    """Ids of the sessions whose answers count; none: all of the agent's."""

    def __post_init__(self) -> None:
        if self.pair_type not in PAIR_TYPES:
            raise UsageError(f"pair_type must be one of {', '.join(PAIR_TYPES)}, not {self.pair_type!r}")
        check_numbers(self)
        object.__setattr__(self, "sessions", tuple(self.sessions))
