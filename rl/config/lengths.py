"""How long the texts of a type of agent are."""

from typing import NamedTuple


class Lengths(NamedTuple):
    context_length: int
    """Tokens of prompt and answer."""
    response_length: int
    """Most tokens of an answer."""


LENGTHS: dict[str, Lengths] = {}
"""Type of agent, in capitals, to its lengths, which a new agent of that name has. ``rl.from_systems`` adds its own when the
app starts."""


def lengths_of(name: str) -> dict[str, int]:
    """Fields of a new agent; empty for a name that is not a type."""
    lengths = LENGTHS.get(name.upper())
    return lengths._asdict() if lengths else {}
