"""New rows of a model, made in a tenth of the time that its constructor takes with keywords."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from django.db import models
from django.db.models.base import ModelState

Row = TypeVar("Row", bound=models.Model)


class RowMaker(Generic[Row]):
    """Makes rows that are not stored yet as copies of a model are made, without its constructor; so a model of which
    somebody wants to hear when one is made is not for it."""

    def __init__(self, model: type[Row]) -> None:
        fields = model._meta.concrete_fields
        made = [field for field in fields if field.has_default() and callable(field.default)]
        self._model = model
        self._fixed = {field.attname: None if field in made else field.get_default() for field in fields}
        self._made = {field.attname: field.default for field in made}

    def __call__(self, given: Mapping[str, Any], **related: models.Model | None) -> Row:
        """``given``: values by the names of columns (``agent_id``, not ``agent``); what is not given is the field's default.
        ``related``: rows that columns refer to, where they are known already."""
        row = self._model.__new__(self._model)
        row._state = ModelState()
        row._state.fields_cache.update(related)
        row.__dict__.update(self._fixed, **given)
        for name, make in self._made.items():
            if name not in given:
                row.__dict__[name] = make()
        return row
