"""How figures of a verdict are written in a sentence."""

from __future__ import annotations

import math
from typing import NamedTuple


class Words(NamedTuple):
    """About what was measured: words for a sentence, and how numbers are written in it."""

    gain: str
    thing: str
    judged: str
    smallest: float
    """The smallest difference that matters."""
    largest: float | None = None
    """The largest change that a prompt can have; None for the largest that was seen."""
    scale: int = 1
    digits: int = 3
    share_of: str = ""
    """Numbers are a share of these less one half, and are written as the share."""

    def write(self, number: float) -> str:
        if self.share_of:
            return f"{number + 0.5:.1%}"
        return f"{self.scale * number:+.{self.digits}f}"

    @property
    def measured(self) -> str:
        return self.share_of or self.gain

    def amount(self, number: float) -> str:
        value = f"{self.scale * number:.3g}"
        return f"{value} {self.gain.replace('points', 'point') if value == '1' else self.gain}"

    def number_of(self, number: int) -> str:
        return f"{number} {self.thing}{'' if number == 1 else 's'}"


ACCURACY = Words("points", "prompt", "", 0.01, 1, 100, 1)
WIN_RATE = Words("points", "prompt", " that could be compared", 0.01, 0.5, 100, 1, "of answers preferred")
"""Changes are a preference for the new version, 0 to 1, less one half."""
REWARD, SUCCESS, FIELDS, RIGHT = (
    Words("reward", "prompt", " that could be rewarded", 0.005),
    Words("solved", "task", " that could be played", 0.01, 1),
    Words("of answers right", "prompt", " that could be answered", 0.01, 1),
    Words("points", "prompt", " that could be answered", 0.01, 1, 100, 1),
)


def percent(error: float) -> str:
    """1 - ``error``, with as many decimals as tell it from 100 %: 97%, 99.6%, 99.98%."""
    return f"{100 - 100 * error:.{max(0, -math.floor(math.log10(100 * error)))}f}%"


def round_up(number: float) -> int:
    """To two digits: more would claim to know."""
    unit = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return math.ceil(number / unit) * unit
