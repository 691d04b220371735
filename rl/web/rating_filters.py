"""Which answers the rating page asks about: filters by what a source knows of its answers beside prompt and response."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self
from urllib.parse import urlencode

from django.db.models import Q
from django.utils.translation import gettext_noop as _

from rl.base.leaves import import_name
from rl.collect.storable import unstorable
from rl.models import Agent, Trace

TAGS = (_("wrong"), _("incomplete"), _("off topic"), _("unclear"), _("too long"), _("unsafe"))
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


NEWEST = 10_000
"""An agent's answers whose values are offered."""
LONGEST = 200
"""Characters of a value that is offered."""
_NOTHING = Q(pk__in=[])


@dataclass(frozen=True, slots=True)
class Filter:
    name: str
    """Parameter of the page's address, and key of a trace's details whose texts are the values."""
    flags: tuple[str, ...] = ()
    """The values, keys of the details that are true or false, instead of texts under the name."""

    def matches(self, value: str, trace: str = "") -> Q:
        """``trace``: the way to the trace, such as ``trace__``, where there is one."""
        if self.flags:
            return Q(**{f"{trace}details__{value}": True}) if value in self.flags else _NOTHING
        return _NOTHING if unstorable(value) else Q(**{f"{trace}details__{self.name}": value})


FILTERS: dict[str, tuple[Filter, ...]] = {}
"""Source of traces to its filters; ``rl.from_systems`` adds its own when the app starts."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a rater wants to see."""

    values: Mapping[str, str]
    """Name of a filter to its value."""

    @classmethod
    def read(cls, parameters: Mapping[str, str]) -> Self:
        """From an address's parameters; those of other names do not count."""
        return cls({name: parameters[name] for name in _by_name() if parameters.get(name)})

    @property
    def query(self) -> str:
        """What stands behind the page's address, the question mark included; empty for all answers."""
        return f"?{urlencode(self.values)}" if self.values else ""

    def condition(self, trace: str = "") -> Q:
        """``trace``: as for ``Filter.matches``."""
        wanted = Q()
        for name, value in self.values.items():
            wanted &= _by_name()[name].matches(value, trace)
        return wanted

    def form(self, agent: Agent, shown: Trace | None) -> list[dict[str, Any]]:
        """The filters of the source of the answer that is shown, and those in use: each its name, its values in their
        order, and the one in use. One query, where there is a filter."""
        own = {entry.name for entry in FILTERS.get(shown.source, ())} if shown else set()
        filters = [entry for name, entry in _by_name().items() if name in own | self.values.keys()]
        offered = _values(agent, [entry.name for entry in filters if not entry.flags])
        return [
            {
                "name": entry.name,
                "values": entry.flags or sorted(offered[entry.name] | ({chosen} if chosen else set())),
                "value": chosen,
            }
            for entry in filters
            for chosen in [self.values.get(entry.name, "")]
        ]


EVERYTHING = Selection({})


def _by_name() -> dict[str, Filter]:
    """Once for each name, whichever source it is of."""
    return {entry.name: entry for filters in FILTERS.values() for entry in filters}


def _values(agent: Agent, names: list[str]) -> dict[str, set[str]]:
    if not names:
        return {}
    newest = Trace.objects.filter(agent=agent).order_by("-created_at", "id")
    rows = list(newest.values_list(*(f"details__{name}" for name in names))[:NEWEST])
    return {
        name: {value for value in column if isinstance(value, str) and 0 < len(value) <= LONGEST}
        for name, column in zip(names, zip(*rows, strict=True) if rows else [()] * len(names), strict=True)
    }
