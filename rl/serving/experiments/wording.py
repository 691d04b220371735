"""The figures of an experiment as text, by metric."""

from rl.base.measurements import Interval

PAIRWISE = ("win_rate", "duel")
"""Answers of a challenger beside those of the control; one half is even."""
SHARES = ("thumbs_up", *PAIRWISE, "error_rate")
"""Written in percent; their differences in points."""
OUTCOME = "outcome:"
_NAMES = {
    "rating": "mean rating",
    "thumbs_up": "thumbs-up rate",
    "win_rate": "win rate",
    "duel": "share of duels won",
    "error_rate": "error rate",
}
_COUNTED = {"win_rate": "comparisons", "duel": "duels", "error_rate": "requests"}


def name_of(metric: str) -> str:
    return _NAMES.get(metric) or f"mean of {metric.removeprefix(OUTCOME)}"


def observation_name(metric: str) -> str:
    if metric.startswith(OUTCOME):
        return f"users with {metric.removeprefix(OUTCOME)}"
    return _COUNTED.get(metric, "rated users")


def sign(metric: str) -> int:
    """-1 where lower is better."""
    return -1 if metric == "error_rate" else 1


def value_text(metric: str, value: float) -> str:
    if metric in SHARES:
        return f"{value * 100:.1f} %"
    return f"{value:.2f}" if metric == "rating" else f"{value:.4g}"


def difference_text(metric: str, value: float, *, signed: bool = True) -> str:
    text = _format_signed(metric, value) if signed else f"{value * 100 if metric in SHARES else value:.4g}"
    return f"{text} points" if metric in SHARES else text


def value_interval(metric: str, interval: Interval) -> str:
    return f"{value_text(metric, interval.low)} to {value_text(metric, interval.high)}".replace("-", "−")


def difference_interval(metric: str, interval: Interval) -> str:
    low, high = (difference_text(metric, end).removesuffix(" points") for end in (interval.low, interval.high))
    return f"{low} to {high}"


def question(metric: str, control: str, challengers: list[str], minimum_effect: float) -> str:
    names = " or ".join(challengers) or "anything"
    if metric in PAIRWISE:
        better = f"win against {control}"
    else:
        better = f"have a {'lower' if sign(metric) < 0 else 'higher'} {name_of(metric)} than {control}"
    least = difference_text(metric, minimum_effect, signed=False)
    return f"Does {names} {better}? A difference of {least} or more matters."


def _format_signed(metric: str, value: float) -> str:
    text = f"{value * 100:+.1f}" if metric in SHARES else f"{value:+.3f}" if metric == "rating" else f"{value:+.4g}"
    return text.replace("-", "−")
