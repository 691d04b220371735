"""The charts of one training, drawn by matplotlib without a display."""

import math
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from rl.base.files import staged_file
from rl.base.records import TrainingResult

LINE, MEAN, BAND, HELD_OUT = "#b8c4d6", "#1f4e9c", "#dfe7f3", "#b3541e"
SMOOTHED_FROM = 20
"""Steps from which a running mean is drawn over the single steps."""


class Chart(NamedTuple):
    title: str
    metrics: tuple[str, ...]
    """The first one that the run has is drawn."""
    spread: str = ""
    """A metric that is a standard deviation around it."""
    noisy: bool = True
    held_out: tuple[str, ...] = ()
    """These too where there are any, a point a pass."""


CHARTS = (
    Chart("loss", ("loss", "policy_loss"), held_out=("held_out_loss",)),
    Chart(
        "accuracy (1 is all right)",
        ("accuracy", "right", "token_accuracy"),
        held_out=("held_out_accuracy", "held_out_token_accuracy"),
    ),
    Chart("reward, mean and spread", ("reward",), spread="reward_std", held_out=("held_out_reward",)),
    Chart("margin of good over bad (nats)", ("margin",)),
    Chart("KL divergence from the base model", ("kl",)),
    Chart("value error", ("value_error", "value_loss")),
    Chart("length of an answer (tokens)", ("completion_length", "length")),
    Chart("gradient norm", ("grad_norm",)),
    Chart("learning rate", ("learning_rate",), noisy=False),
)


def draw(result: TrainingResult, path: Path, title: str) -> None:
    """Raises ValueError where nothing was logged, OSError when the disk refuses."""
    names = (next((name for name in chart.metrics if result.series(name)), "") for chart in CHARTS)
    charts = [(chart, name) for chart, name in zip(CHARTS, names, strict=True) if name]
    if not charts:
        raise ValueError("the training logged nothing that could be drawn")
    columns = min(3, len(charts))
    rows = math.ceil(len(charts) / columns)
    figure = Figure(figsize=(4.6 * columns, 3.1 * rows + 0.9), layout="constrained")
    figure.suptitle(f"{title}\n{_summary(result)}", fontsize=12)
    places = figure.subplots(rows, columns, squeeze=False).flat
    for (chart, metric), axes in zip(charts, places, strict=False):
        _draw_one(axes, chart, _points(result, metric), _points(result, chart.spread))
        for points in filter(None, (_points(result, name) for name in chart.held_out)):
            axes.plot(list(points), list(points.values()), color=HELD_OUT, linewidth=1, marker="o", label="held out")
            axes.legend(fontsize=8)
    for axes in list(places):
        axes.remove()
    if len(result.history) >= SMOOTHED_FROM:
        figure.supxlabel("pale: each step; dark: the mean of the last tenth of the steps", fontsize=8, color="#666666")
    with staged_file(path) as partial:
        figure.savefig(partial, format="png", dpi=110)


def _points(result: TrainingResult, metric: str) -> dict[int, float]:
    """Step to value."""
    return {number: value for number, step in enumerate(result.history, 1) if (value := step.get(metric)) is not None}


def _summary(result: TrainingResult) -> str:
    time = f"{result.seconds:.0f} seconds" if result.seconds < 120 else f"{result.seconds / 60:,.0f} minutes"
    words = f"{result.steps:,} steps, {time}, last loss {result.final_loss:.4g}"
    changed = ", ".join(f"{name} {value}" for name, value in result.changed.items())
    return f"{words}; for want of memory {changed}" if changed else words


def _draw_one(axes: Axes, chart: Chart, points: dict[int, float], spread: dict[int, float]) -> None:
    steps, values = list(points), list(points.values())
    many = chart.noisy and len(values) >= SMOOTHED_FROM
    if spread:
        low, high = ([value + sign * spread.get(step, 0.0) for step, value in points.items()] for sign in (-1, 1))
        axes.fill_between(steps, low, high, color=BAND)
    axes.plot(steps, values, color=LINE if many else MEAN, linewidth=1, marker="" if len(values) > 1 else "o")
    if many:
        axes.plot(steps, _running_mean(values, len(values) // 10), color=MEAN, linewidth=1.8)
    if min(values) > 0 and max(values) > 100 * min(values) and chart.noisy:
        axes.set_yscale("log")
    axes.set_title(chart.title, fontsize=10)
    axes.set_xlabel("step", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.grid(visible=True, color="#eeeeee")
    axes.spines[["top", "right"]].set_visible(False)


def _running_mean(values: list[float], window: int) -> list[float]:
    """The mean of each value and those before it, at most ``window`` together."""
    window = max(2, window)
    means = []
    for end in range(1, len(values) + 1):
        part = values[max(0, end - window) : end]
        means.append(sum(part) / len(part))
    return means
