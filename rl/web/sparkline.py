"""A line as small as a word, as the points of an SVG polyline."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH, HEIGHT, EDGE = 96, 24, 3


def sparkline(values: Sequence[tuple[float, float]], last_x: float, low: float, high: float) -> str:
    """``values``: (x, y) with x from 0 to ``last_x`` and y from ``low`` to ``high``. A single one is a short dash; empty
    without any."""
    width, height, span = WIDTH - 2 * EDGE, HEIGHT - 2 * EDGE, (high - low) or 1.0
    points = [(EDGE + width * x / (last_x or 1), EDGE + height * (1 - (y - low) / span)) for x, y in values]
    if len(points) == 1:
        [(x, y)] = points
        points = [(x - EDGE, y), (x + EDGE, y)]
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
