"""How large the rows of an answer are, before they are read: rows are counted, and what is in them too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from django.db.models import Expression, F, JSONField, Model, TextField, Value
from django.db.models.functions import Cast, Coalesce, Length

MOST_CHARACTERS: Final = 4_000_000
"""What the texts and JSON columns that one answer reads have together. A row that has more by itself is answered alone."""
Key = TypeVar("Key")


def size_of(model: type[Model], prefix: str = "") -> Expression:
    """Characters of a row's texts and JSON; ``prefix``: of a related row's, such as ``trace__``."""
    large = [field.name for field in model._meta.concrete_fields if isinstance(field, (TextField, JSONField))]
    lengths = (Coalesce(Length(Cast(F(f"{prefix}{name}"), TextField())), Value(0)) for name in large)
    return sum(lengths, Value(0))


def within(keys: Iterable[Key], size: Callable[[Key], int], most: int = MOST_CHARACTERS) -> list[Key]:
    """The first of them that have ``most`` characters together, one at least."""
    taken: list[Key] = []
    for key in keys:
        most -= size(key)
        if most < 0 and taken:
            break
        taken.append(key)
    return taken
