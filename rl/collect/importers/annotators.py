"""Two answers that several people compared, each with a pick of their own: PandaLM's columns ``annotator1`` and on,
Argilla's records (as ``to_list`` writes them, nested or flat), Label Studio's tasks with ``annotations``.

A pick names an answer by its column, or says left, right, a, b, 1, 2, tie; a ranking gives both a rank."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from rl.collect.importers.fields import Refused, as_word

Choice = Literal["left", "right", "tie", "both_bad"]
_PANDALM: Final = re.compile(r"annotator_?\d+")
_SIDES: Final = (("1", "2"), ("a", "b"), ("0", "1"), ("left", "right"), ("first", "second"))
"""How the names of two answers end."""
_TIES: Final = frozenset(("0", "tie", "equal", "equally good", "same", "both", "both good", "draw"))
_BOTH_BAD: Final = frozenset(("both_bad", "both bad", "bothbad", "neither", "none"))
_RESPONSES: Final = ".responses"
_PREFERENCE: Final = re.compile("prefer|better|best|winner|choice|pick|rank|order")
"""Parts of the name of a question that asks which answer is better."""
_SUBMITTED: Final = (None, "submitted")


class Compared(NamedTuple):
    row: dict[str, Any]
    """The columns that people were shown, without their picks."""
    first: str
    second: str
    picks: tuple[tuple[str, Choice], ...]
    """Each person's name and choice."""


def find_compared(row: Mapping[str, Any]) -> Compared | None:
    """None where the row is none of these. Raises Refused."""
    for read in (_label_studio, _argilla, _argilla_flat, _pandalm):
        if (compared := read(row)) and _pairs(compared[0]):
            shown, opinions = compared
            first, second = _two_answers(shown)
            return Compared(shown, first, second, tuple((who, _choice(word, first, second)) for who, word in opinions))
    return None


_Found = tuple[dict[str, Any], Iterator[tuple[str, Any]]] | None
"""The columns that people were shown, and who picked what: it is read only where two answers are among the columns."""


def _pandalm(row: Mapping[str, Any]) -> _Found:
    names = [name for name, value in row.items() if _PANDALM.fullmatch(name.lower()) and value is not None]
    shown = {name: value for name, value in row.items() if name not in names}
    return (shown, ((name, row[name]) for name in names)) if names else None


def _argilla(row: Mapping[str, Any]) -> _Found:
    fields, responses = row.get("fields"), row.get("responses")
    if not isinstance(fields, dict) or not isinstance(responses, dict):
        return None
    return {name: value for name, value in row.items() if name not in ("fields", "responses")} | fields, _read_picks(
        responses
    )


def _read_picks(responses: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Raises Refused."""
    for answer in _objects(responses[_preference_among(responses)]):
        if answer.get("status") in _SUBMITTED:
            yield _who("argilla", answer.get("user_id")), answer.get("value")


def _argilla_flat(row: Mapping[str, Any]) -> _Found:
    if not any(name.endswith(_RESPONSES) and isinstance(value, list) for name, value in row.items()):
        return None
    return {name: value for name, value in row.items() if _RESPONSES not in name}, _read_flat_picks(row)


def _read_flat_picks(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Raises Refused."""
    name = _preference_among([name for name in row if name.endswith(_RESPONSES) and isinstance(row[name], list)])
    users, statuses = (_as_long(row.get(f"{name}.{what}"), row[name]) for what in ("users", "status"))
    for user, value, status in zip(users, row[name], statuses, strict=True):
        if status in _SUBMITTED:
            yield _who("argilla", user), value


def _preference_among(questions: Collection[str]) -> str:
    """The one question that asks which answer is better. Raises Refused where that is not plain."""
    named = [name for name in questions if len(questions) == 1 or _PREFERENCE.search(name.lower())]
    if len(named) != 1:
        names = ", ".join(questions)
        raise Refused(
            f"of the questions {names:.100} not one asks which is better: name it preference, and no other so"
        )
    return named[0]


def _as_long(values: Any, others: Sequence[Any]) -> Sequence[Any]:
    return values if isinstance(values, list) and len(values) == len(others) else [None] * len(others)


def _label_studio(row: Mapping[str, Any]) -> _Found:
    shown, annotations = row.get("data"), row.get("annotations")
    if not isinstance(shown, dict) or not isinstance(annotations, list):
        return None
    return shown, (pick for annotation in _objects(annotations) for pick in _results(annotation))


def _results(annotation: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    by = annotation.get("completed_by")
    who = _who("label-studio", (by.get("email") or by.get("id")) if isinstance(by, dict) else by)
    for result in () if annotation.get("was_cancelled") else _objects(annotation.get("result")):
        value = result.get("value")
        if isinstance(value, dict) and result.get("type") == "pairwise":
            yield who, value.get("selected") or "tie"
        elif isinstance(value, dict) and result.get("type") == "choices":
            choices = value.get("choices")
            yield who, choices[0] if isinstance(choices, list) and choices else choices


def _objects(values: Any) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _who(tool: str, name: Any) -> str:
    return f"{tool}:{name}" if isinstance(name, (str, int)) and name != "" else tool


def _two_answers(shown: Mapping[str, Any]) -> tuple[str, str]:
    """Raises Refused unless two columns are named alike but for the side."""
    pairs = _pairs(shown)
    if len(pairs) != 1:
        raise Refused(
            f"{len(pairs)} pairs of columns may be the two answers; name them response_1 and response_2, and no others so"
        )
    return pairs[0]


def _pairs(shown: Mapping[str, Any]) -> list[tuple[str, str]]:
    names = {name.lower(): name for name, value in shown.items() if isinstance(value, (str, list))}
    return [
        (names[name], names[name.removesuffix(left) + right])
        for left, right in _SIDES
        for name in names
        if name.endswith(left) and name.removesuffix(left) + right in names
    ]


def _choice(pick: Any, first: str, second: str) -> Choice:
    """Raises Refused."""
    if isinstance(pick, list):
        return _by_rank(pick, first, second)
    word = as_word(pick)
    if word in _BOTH_BAD:
        return "both_bad"
    left, right = next(ends for ends in _SIDES if first.lower().endswith(ends[0]) and second.lower().endswith(ends[1]))
    sides: dict[str, Choice] = dict.fromkeys(_TIES, "tie")
    sides |= dict.fromkeys(("left", "a", left, first.lower()), "left")
    sides |= dict.fromkeys(("right", "b", right, second.lower()), "right")
    if word not in sides:
        raise Refused(f"a pick must be {first}, {second}, left, right or tie, not {pick!r:.50}")
    return sides[word]


def _by_rank(ranking: list[Any], first: str, second: str) -> Choice:
    ranks = {str(entry.get("value")).lower(): entry.get("rank") for entry in _objects(ranking)}
    left, right = (ranks.get(name.lower(), ranks.get(name.lower().replace("_", "-"))) for name in (first, second))
    if not isinstance(left, int) or not isinstance(right, int):
        raise Refused(f"a ranking must give {first} and {second} a rank")
    return "left" if left < right else "right" if right < left else "tie"
