"""Answers that are choices rather than texts: how they are drawn for whoever rates them, and which tags describe them.

A drawing is data, which the page and its script put on the screen as text: nothing in an answer can become markup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rl.base.leaves import import_name
from rl.models import Trace

TAGS = ("wrong", "incomplete", "off topic", "unclear", "too long", "unsafe")
DRAWINGS: dict[str, str] = {}
"""Source of traces to the dotted path of a Draw; ``rl.from_systems`` adds its own when the app starts."""
TAGS_OF: dict[str, tuple[str, ...]] = {}
"""Source of traces to the tags that are offered for them instead of TAGS."""


@dataclass(frozen=True, slots=True)
class Figure:
    label: str
    text: str
    share: float | None = None
    """How long its bar is, 0 to 1; None: it has none."""


@dataclass(frozen=True, slots=True)
class Drawing:
    heading: str
    title: str
    size: str
    """How wide it is: one of ``rl.data_formatter.wording.contract.SIZES``."""
    marks: tuple[str, ...] = ()
    """What else is known of it, each a word or two."""
    figures: tuple[Figure, ...] = ()


Draw = Callable[[Mapping[str, Any]], Drawing | None]
"""From a trace's details; None: it is shown as text. It must not raise, whatever they hold."""


def drawing_of(trace: Trace) -> dict[str, Any] | None:
    """JSON."""
    if trace.source not in DRAWINGS or not isinstance(trace.details, dict):
        return None
    draw: Draw = import_name(DRAWINGS[trace.source])
    drawing = draw(trace.details)
    return asdict(drawing) if drawing else None


def tags_of(trace: Trace | None) -> tuple[str, ...]:
    return TAGS if trace is None else TAGS_OF.get(trace.source, TAGS)
