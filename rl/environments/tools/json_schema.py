"""Arguments against a tool's own schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsonschema.exceptions import best_match  # type: ignore[import-untyped]
from jsonschema.validators import validator_for  # type: ignore[import-untyped]
from referencing import Registry


def first_mistake(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """One sentence; empty for arguments that fit. A schema that is itself wrong says nothing of them. Nothing is fetched for
    a ``$ref`` that leads elsewhere."""
    try:
        mistake = best_match(validator_for(schema)(schema, registry=Registry()).iter_errors(dict(arguments)))
    except Exception:  # whatever a schema from outside can break
        return ""
    if mistake is None:
        return ""
    location = ".".join(str(part) for part in mistake.absolute_path)
    return f"{f'the argument {location}' if location else 'the arguments'}: {mistake.message[:300]}"
