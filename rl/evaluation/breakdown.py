"""Accuracy on parts of the held-out pairs: by the tags that raters gave, and by Command Center's scenarios."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rl.base.measurements import PairScore
from rl.evaluation.stats.intervals import prompt_accuracy
from rl.models import Feedback

MOST_GROUPS = 20
"""Those with the most prompts."""
Row = Mapping[str, Any]


def breakdown(rows: Sequence[Row], scores: Mapping[str, Sequence[PairScore]]) -> dict[str, Any]:
    """``tags`` and ``scenarios``, each a list of groups. A pair is in the groups of all feedback behind it, so it may be in
    several; those of files are in none. ``scores``: of each model, in the order of the rows."""
    marks = dict(_marks_of({number for row in rows for number in row.get("feedback", ())}))
    parts = {}
    for kind in ("tags", "scenarios"):
        members: defaultdict[str, list[int]] = defaultdict(list)
        for position, row in enumerate(rows):
            for name in {name for number in row.get("feedback", ()) for name in marks.get(number, {}).get(kind, ())}:
                members[name].append(position)
        parts[kind] = _groups(members, scores)
    return parts


def _groups(members: Mapping[str, Sequence[int]], scores: Mapping[str, Sequence[PairScore]]) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = []
    for name, positions in members.items():
        of_group = {model: [of_pairs[position] for position in positions] for model, of_pairs in scores.items()}
        groups.append(
            {
                "name": name,
                "pairs": len(positions),
                "prompts": len({score.prompt_key for score in of_group["new"]}),
                "models": {model: asdict(prompt_accuracy(of_pairs)) for model, of_pairs in of_group.items()},
            }
        )
    return sorted(groups, key=lambda group: (-group["prompts"], group["name"]))[:MOST_GROUPS]


def _marks_of(feedback: Iterable[int]) -> Iterator[tuple[int, dict[str, list[str]]]]:
    """Tags of each event, and the scenario of the answer that it is about."""
    for events in Feedback.by_ids(feedback):
        for number, tags, scenario in events.values_list("pk", "tags", "trace__details__scenario"):
            yield number, {"tags": _names(tags), "scenarios": _names([scenario])}


def _names(values: Any) -> list[str]:
    return [value for value in values if isinstance(value, str) and value] if isinstance(values, list) else []
