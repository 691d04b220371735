"""A simulation's entry on the rating page: its widget with the values that it would show."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rl.data_formatter.wording.contract import SIZES, shown_values
from rl.web.rating_filters import Drawing, Figure, Filter

FLAGS = ("natural", "forced")
TAGS = ("relevant", "good-data", "perfect", "wrong-chart-type", "bad-fixture", "data-mismatch", "ugly")
FILTERS = (Filter("category"), Filter("scenario"), Filter("choice", flags=FLAGS))
MOST_FIGURES = 24
LONGEST = 80
"""Characters of a label or a value."""
DEEPEST = 4


def draw(details: Mapping[str, Any]) -> Drawing | None:
    """A bar for every number; text for the rest."""
    scenario, fixture, size = (details.get(name) for name in ("scenario", "fixture", "size"))
    if not (isinstance(scenario, str) and isinstance(fixture, str) and isinstance(size, str) and size in SIZES):
        return None
    parts = (details.get(name) for name in ("layout_context", "data_override"))
    layout, data = (part if isinstance(part, dict) else {} for part in parts)
    values = shown_values(data) or data
    label, unit = (values.get(name) if isinstance(values.get(name), str) else "" for name in ("label", "unit"))
    rest = {name: value for name, value in values.items() if name not in ("label", "unit")}
    return Drawing(
        heading=_text(layout.get("heading") or ""),
        title=_text(f"{label or scenario}{f' ({unit})' if unit else ''}"),
        size=size,
        marks=(
            *(_text(scenario), _text(fixture), size),
            *([_text(category)] if (category := details.get("category")) else []),
            *(name for name in FLAGS if details.get(name) is True),
        ),
        figures=_with_bars(list(_leaves("", rest, 0))[:MOST_FIGURES]),
    )


def _leaves(name: str, value: object, depth: int) -> Iterator[tuple[str, object]]:
    """Label and value, in the order of the data; deeper than DEEPEST as text."""
    if isinstance(value, dict) and depth < DEEPEST:
        own = next(
            (key for key in ("label", "name", "title", "time", "timestamp") if isinstance(value.get(key), str)), ""
        )
        prefix = f"{name} {value[own]}".strip() if own else name
        for key, part in value.items():
            if key != own:
                yield from _leaves(f"{prefix} {key}".strip(), part, depth + 1)
    elif isinstance(value, list) and depth < DEEPEST:
        for number, part in enumerate(value[:MOST_FIGURES], 1):
            yield from _leaves(f"{name} {number}".strip(), part, depth + 1)
    else:
        yield name, value


def _with_bars(leaves: list[tuple[str, object]]) -> tuple[Figure, ...]:
    lengths = [_length(value) for _, value in leaves]
    largest = max((length for length in lengths if length is not None), default=0.0) or 1.0
    return tuple(
        Figure(_text(name), _text(value), None if length is None else length / largest)
        for (name, value), length in zip(leaves, lengths, strict=True)
    )


def _length(value: object) -> float | None:
    """None for what is not a number, or beyond all bars."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e300 or math.isnan(value):
        return None
    return abs(float(value))


def _text(value: object) -> str:
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:,.6g}"
    text = str(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
