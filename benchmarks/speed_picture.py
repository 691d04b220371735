"""The figures as a picture: a bar for each way of a workload, as long as its CPU seconds are parts of the first way's."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

WIDTH: Final = 760
LABEL: Final = 210
BAR: Final = 440
LINE: Final = 20
GAP: Final = 34
"""All in pixels: of the picture, its labels, the first bar, and from one bar and one workload to the next."""
COLOURS: Final = ("#8a94a6", "#2f6fde")
"""Of the other ways, and of ours: they can be read on white and on black."""


def draw(workloads: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """An SVG document."""
    parts, top = [], 0
    for name, rows in workloads.items():
        top += GAP
        parts.append(f'<text x="0" y="{top - 8}" font-weight="bold">{escape(name)}</text>')
        parts += _bars(rows, top)
        top += LINE * len(rows)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + 10}" font-family="sans-serif"'
    return "\n".join([f'{head} font-size="13" fill="#6b7280">', *parts, "</svg>\n"])


def _bars(rows: Sequence[Mapping[str, Any]], top: int) -> Iterator[str]:
    first, longest = rows[0]["cpu_seconds"], max(row["cpu_seconds"] for row in rows)
    for number, row in enumerate(rows):
        y, width = top + LINE * number, BAR * row["cpu_seconds"] / longest
        colour = COLOURS[row["way"].startswith("ours") and number == len(rows) - 1]
        yield f'<text x="{LABEL - 8}" y="{y + 12}" text-anchor="end">{escape(row["way"])}</text>'
        yield f'<rect x="{LABEL}" y="{y + 1}" width="{width:.0f}" height="{LINE - 6}" fill="{colour}"/>'
        text = f"{row['cpu_seconds']:.2f} s" + (f", {first / row['cpu_seconds']:.1f}x" if number else "")
        yield f'<text x="{LABEL + width + 6:.0f}" y="{y + 12}">{text}</text>'
