from __future__ import annotations

from typing import Any, Literal

import pytest

from rl.base.errors import UsageError
from rl.environments.tools.registry import schema_of


def book(
    city: str,
    nights: int,
    *,
    price: float | None = None,
    guests: list[str] | None = None,
    room: Literal["a", "b"] = "a",
) -> str:
    """Books a room,
    if there is one.

    Args:
        city: Where to.
        nights (int): How long.
        room: Which one: a or b.

    Returns:
        city: this is not about the parameter.
    """
    return city


def test_a_schema_has_types_descriptions_and_what_is_required():
    function = schema_of("book", book)["function"]
    assert (function["name"], function["description"]) == ("book", "Books a room, if there is one.")
    assert function["parameters"] == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where to."},
            "nights": {"type": "integer", "description": "How long."},
            "price": {"type": "number", "nullable": True},
            "guests": {"type": "array", "items": {"type": "string"}, "nullable": True},
            "room": {"type": "string", "enum": ["a", "b"], "description": "Which one: a or b."},
        },
        "required": ["city", "nights"],
    }


def untyped(city) -> str:  # type: ignore[no-untyped-def]
    return str(city)


def foreign(city: complex) -> str:
    return str(city)


def several(city: str | int) -> str:
    return str(city)


@pytest.mark.parametrize(
    ("function", "told"),
    [(untyped, "city has no type"), (foreign, "which JSON has not"), (several, "which JSON has not")],
    ids=["untyped", "foreign", "several"],
)
def test_what_json_has_not_is_refused(function: Any, told: str):
    with pytest.raises(UsageError, match=f"tool x: its parameter.*{told}"):
        schema_of("x", function)
