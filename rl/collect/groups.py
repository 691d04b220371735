"""Groups of questions, by what the app says beside them: keys of a trace's details, or of the metadata of its request to the
gateway."""

from collections.abc import Collection, Mapping
from itertools import chain, groupby, islice
from operator import attrgetter
from typing import Any, Final, NamedTuple

from django.db.models import TextField
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Coalesce

from rl.config.groups import read_group_keys
from rl.models import Agent

MOST_GROUPS: Final = 12
"""The largest ones of each key are looked at."""
LONGEST: Final = 60
"""Characters of a value; a longer one makes no group."""
MOST_READ: Final = 20_000
"""Different values of the prompts' keys together."""


class Group(NamedTuple):
    key: str
    value: str

    def __str__(self) -> str:
        return f"{self.key} = {self.value}"


def group_columns(keys: Collection[str], trace: str = "") -> dict[str, Any]:
    """To annotate rows with, one a key and in that order; ``values_in`` reads them. ``trace``: the way to the trace, such as
    ``trace__``, where there is one."""
    details = f"{trace}details"
    metadata = KeyTransform("metadata", KeyTransform("parameters", details))
    return {
        f"group_{number}": Coalesce(
            KeyTextTransform(key, details), KeyTextTransform(key, metadata), output_field=TextField()
        )
        for number, key in enumerate(keys)
    }


def values_in(keys: Collection[str], columns: Collection[object]) -> list[Group]:
    """The groups of a row: texts, whole numbers and truth values, which are short."""
    texts = (" ".join(str(value).split()) if value is not None else "" for value in columns)
    return [Group(key, text) for key, text in zip(keys, texts, strict=True) if _is_name(text)]


def _is_name(text: str) -> bool:
    return 0 < len(text) <= LONGEST and text.isprintable() and text[0] not in "[{" and text != "null"


def find_groups(agent: Agent, prompt_keys: Collection[str]) -> dict[Group, list[str]]:
    """Which of the prompts belong to which group: one that people of several have asked belongs to each. One query."""
    keys = read_group_keys(agent.group_by)
    if not keys:
        return {}
    columns = group_columns(keys)
    rows = agent.traces.filter(prompt_key__in=prompt_keys).order_by().annotate(**columns)
    members: dict[Group, set[str]] = {}
    for prompt, *values in rows.values_list("prompt_key", *columns).distinct()[:MOST_READ]:
        for group in values_in(keys, values):
            members.setdefault(group, set()).add(prompt)
    return {group: sorted(prompts) for group, prompts in members.items()}


def choose_groups(sizes: Mapping[Group, int], fewest: int) -> list[Group]:
    """The largest ones of each key, those with so many or more, in order."""
    ordered = sorted(sizes, key=lambda group: (group.key, -sizes[group], group.value))
    of_keys = (islice(of_key, MOST_GROUPS) for _, of_key in groupby(ordered, attrgetter("key")))
    return [group for group in chain.from_iterable(of_keys) if sizes[group] >= fewest]
