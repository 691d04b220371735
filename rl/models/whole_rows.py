"""Reads rows by statements that are written out: composing one of Django's anew takes ten times as long as running it."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

from django.db import connection, models

Row = TypeVar("Row", bound=models.Model)


class _Columns(NamedTuple):
    names: list[str]
    """Attributes of a row, in the order of the statement's columns."""
    select: str
    converters: list[tuple[int, list[Callable[..., Any]], Any]]
    """Position, what Django does with the driver's value one after the other, and the expression that it is told."""


def read_rows(model: type[Row], condition: str, values: Sequence[Any]) -> Iterator[Row]:
    """Rows as the model's manager gives them, in no order. ``condition``: SQL with a placeholder for each of the values,
    which are as the driver takes them."""
    columns = _columns(model, connection.vendor)
    with connection.cursor() as cursor:
        cursor.execute(f"{columns.select} WHERE {condition}", values)
        rows = cursor.fetchall()
    for row in rows:
        cells = list(row)
        for position, steps, expression in columns.converters:
            for convert in steps:
                cells[position] = convert(cells[position], expression, connection)
        yield model.from_db(connection.alias, columns.names, cells)


def placeholders(values: Collection[Any]) -> str:
    """One for each, for a list in a statement."""
    return ", ".join(["%s"] * len(values))


@cache
def _columns(model: type[models.Model], vendor: str) -> _Columns:  # noqa: ARG001  a part of the key
    fields, table = model._meta.concrete_fields, model._meta.db_table
    names = ", ".join(connection.ops.quote_name(str(field.column)) for field in fields)
    converters = (
        model._base_manager.all()
        .query.get_compiler(connection=connection)
        .get_converters([field.get_col(table) for field in fields])
    )
    return _Columns(
        [field.attname for field in fields],
        f"SELECT {names} FROM {connection.ops.quote_name(table)}",  # noqa: S608 (names of columns)
        [(position, steps, expression) for position, (steps, expression) in converters.items()],
    )
