"""What no person does by hand: many ratings in a few seconds, the same one always and without looking, one text everywhere.

The limits are wide, for a person who is held back wrongly loses more than a machine that is not: somebody rates once a
second by keyboard, presses ten keys 50 ms apart where the answers are plainly alike, and a page that was offline sends
twenty ratings at once."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

BURST, BURST_SECONDS = 60, 20.0
"""So many decisions within so many seconds, three a second for twenty seconds, are a burst."""
ARRIVALS, ARRIVAL_SECONDS = 300, 20.0
"""The same of the moments when they arrived, whatever their own clock says."""
SAME: Final = 50
"""The newest so many ratings are looked at for one value, and"""
QUICK_SECONDS: Final = 2.0
"""half of them come sooner than this after the one before, and"""
CHANCE: Final = 1e-6
"""the others' ratings would give that row by chance less often than this: where all answers are good, all are rated so."""
SAME_TEXTS, LEAST_LETTERS, TEXT_SECONDS = 20, 15, 3600.0
"""One text of so many letters or more is written about so many answers within so many seconds."""


class Act(NamedTuple):
    """One rating, comparison, correction or note; times in seconds of one clock."""

    decided: float
    arrived: float
    value: str
    """What was said, such as ``0.0`` or ``left``; empty of what has no value."""
    text: str = ""


def reasons(acts: Sequence[Act], others: Counter[str]) -> list[str]:
    """Why these cannot be a person's, with figures; mostly none. ``others``: how often other raters of these answers' agent
    say which value."""
    return [*_bursts(acts), *_one_value(acts, others), *_one_text(acts)]


def _bursts(acts: Sequence[Act]) -> Iterator[str]:
    if most := _most_within([act.decided for act in acts], BURST_SECONDS, BURST):
        yield f"{most} decisions within {BURST_SECONDS:g} seconds"
    elif most := _most_within([act.arrived for act in acts], ARRIVAL_SECONDS, ARRIVALS):
        yield f"{most} decisions arrived within {ARRIVAL_SECONDS:g} seconds"


def _most_within(times: Sequence[float], seconds: float, least: int) -> int:
    """The most in any such span, or 0 below ``least``."""
    ordered, start, most = sorted(times), 0, 0
    for end, time in enumerate(ordered):
        while time - ordered[start] > seconds:
            start += 1
        most = max(most, end - start + 1)
    return most if most >= least else 0


def _one_value(acts: Sequence[Act], others: Counter[str]) -> Iterator[str]:
    newest = sorted((act for act in acts if act.value), key=lambda act: act.decided)[-SAME:]
    values, number = {act.value for act in newest}, others.total()
    if len(newest) < SAME or len(values) != 1 or not number:
        return
    [value] = values
    pause = median(later.decided - earlier.decided for earlier, later in pairwise(newest))
    share = others[value] / number
    if pause < QUICK_SECONDS and share**SAME < CHANCE:
        yield f"{SAME} times {value} in a row, {pause:.1f} seconds apart, where others say so in {share:.0%}"


def _one_text(acts: Sequence[Act]) -> Iterator[str]:
    times: dict[str, list[float]] = {}
    for act in acts:
        text = " ".join(act.text.split()).casefold()
        if len(text) >= LEAST_LETTERS:
            times.setdefault(text, []).append(act.decided)
    most = max((_most_within(each_time, TEXT_SECONDS, SAME_TEXTS) for each_time in times.values()), default=0)
    if most:
        yield f"the same text {most} times within an hour"
