"""What goes wrong while recording is logged once and never reaches the agent."""

import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from rl.base.errors import RatchetError

logger = logging.getLogger("rl.collect.capture")
MOST_KINDS = 200
"""Kinds that are remembered; an agent that keeps failing in new ways fills neither memory nor the log."""


class Troubles:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def log_failure(self, doing: str, error: BaseException) -> None:
        """Called inside an except block."""
        # Not the text of a foreign error: it may be long, or hold what ``redact`` is there to hide.
        name = type(error).__name__
        what = str(error) if isinstance(error, RatchetError) else name
        self.once(f"{doing}:{name}", "%s failed: %s; the agent goes on", doing, what, exc_info=True)

    def once(self, kind: str, message: str, *values: object, exc_info: bool = False) -> None:
        """``exc_info`` is shown where the log takes debugging messages."""
        if kind in self.counts or len(self.counts) < MOST_KINDS:
            self.counts[kind] += 1
            if self.counts[kind] == 1:
                with suppress(Exception):  # a filter of the application's own log
                    logger.warning(message, *values, exc_info=exc_info and logger.isEnabledFor(logging.DEBUG))

    def count_lost(self, counts: Counter[str]) -> None:
        """Logged the 1st, 10th, 100th … time, with the count so far."""
        counts["lost"] += 1
        self.counts["lost"] += 1
        if str(self.counts["lost"]).strip("0") == "1":
            logger.warning("traces that could not be delivered and are lost: %d", self.counts["lost"])

    def over(self, kind: str, message: str) -> None:
        """What was wrong is right again, and is logged anew when it comes back."""
        if self.counts.pop(kind, 0):
            logger.info(message)


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Troubled(Protocol):
    troubles: Troubles


Owner = TypeVar("Owner", bound=Troubled)


def never_raises(
    method: Callable[Concatenate[Owner, Parameters], Result | None],
) -> Callable[Concatenate[Owner, Parameters], Result | None]:
    """The method, which returns None where it would raise."""

    @wraps(method)
    def calm(self: Owner, *arguments: Parameters.args, **named: Parameters.kwargs) -> Result | None:
        try:
            return method(self, *arguments, **named)
        except Exception as error:  # noqa: BLE001  the agent goes on
            self.troubles.log_failure(method.__name__, error)
            return None

    return calm
