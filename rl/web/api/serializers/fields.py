"""Fields that take exactly what the documentation says, and no string where a number belongs."""

import math
from functools import cached_property
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.fields import empty
from rest_framework.validators import ProhibitSurrogateCharactersValidator

from rl.base.answer_ids import as_id
from rl.base.errors import UsageError
from rl.base.names import unknown_name
from rl.base.records import Message
from rl.base.slugs import check_name
from rl.collect.feedback.tokens import MOST_RATERS
from rl.collect.limits import MAX_ID_LENGTH, MAX_MESSAGES, MAX_STEPS, MAX_WHOLE_NUMBER, ROLES
from rl.collect.storable import POISON


class StrictSerializer(serializers.Serializer):
    """Refuses fields it does not know: a misspelt one would be lost in silence. Its fields are keys of a JSON object, with
    no ``source`` and no method ``validate_…`` of their own: what is not sent and may be missing takes no time then."""

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, dict):
            return super().to_internal_value(data)
        if unknown := sorted(data.keys() - self.fields.keys()):
            raise ValidationError({name: [unknown_name("field", name, self.fields)] for name in unknown[:20]})
        checked: dict[str, Any] = {}
        errors: dict[str, Any] = {}
        for name, field, may_be_missing in self._checks:
            if name in data or not may_be_missing:
                try:
                    checked[name] = field.run_validation(data.get(name, empty))
                except ValidationError as error:
                    errors[name] = error.detail
        if errors:
            raise ValidationError(errors)
        return checked

    @cached_property
    def _checks(self) -> list[tuple[str, serializers.Field, bool]]:
        """Each field, and whether nothing is to be done where it was not sent."""
        return [
            (name, field, not field.required and field.default is empty)
            for name, field in self.fields.items()
            if not field.read_only
        ]

    def run_validators(self, value: Any) -> None:
        if self.validators:
            super().run_validators(value)


class NumberField(serializers.FloatField):
    """A finite JSON number."""

    def to_internal_value(self, data: Any) -> float:
        if isinstance(data, bool) or not isinstance(data, (int, float)) or not math.isfinite(data):
            self.fail("invalid")
        return float(data)


class RatingValueField(NumberField):
    """A number; true and false stand for the two thumbs."""

    def to_internal_value(self, data: Any) -> float:
        return super().to_internal_value(int(data) if isinstance(data, bool) else data)


class WholeNumberField(serializers.IntegerField):
    """What the database's four-byte columns hold, or less."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"min_value": 0, "max_value": MAX_WHOLE_NUMBER, **kwargs})

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return super().to_internal_value(data)


class TextField(serializers.CharField):
    """Text as it is, its white space included; a number is not text."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"trim_whitespace": False, **kwargs})
        self.validators = [
            _refuse_halves if isinstance(validator, ProhibitSurrogateCharactersValidator) else validator
            for validator in self.validators
        ]

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class NameField(TextField):
    """Who somebody is: one line."""

    def to_internal_value(self, data: Any) -> str:
        try:
            return check_name(super().to_internal_value(data), "the name")
        except UsageError as error:
            raise ValidationError(str(error)) from error


def _refuse_halves(text: str) -> None:
    """What REST framework's validator says, which looks at each character by itself. Raises ValidationError."""
    if not text.isascii() and POISON.search(text):
        ProhibitSurrogateCharactersValidator()(text)


_AS_ID = serializers.UUIDField()


@extend_schema_field({"type": "string", "minLength": 1, "maxLength": MAX_ID_LENGTH})
class TraceField(TextField):
    """The id of a trace, as a UUID; or the one in the system that it came from, as text."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=MAX_ID_LENGTH, **kwargs)

    def run_validation(self, data: Any = serializers.empty) -> Any:
        if isinstance(data, str) and (given := as_id(data)):
            return given
        try:
            return _AS_ID.run_validation(data)
        except ValidationError:
            return super().run_validation(data)


class ShortListField(serializers.ListField):
    """A list whose length is looked at before its elements are."""

    def __init__(self, *, longest: int, **kwargs: Any) -> None:
        super().__init__(max_length=longest, **kwargs)

    def to_internal_value(self, data: Any) -> list[Any]:
        if isinstance(data, list) and len(data) > (self.max_length or 0):
            raise ValidationError([f"at most {self.max_length} elements, not {len(data)}"])
        checked: list[Any] = super().to_internal_value(data)
        return checked


@extend_schema_field({"type": "array", "items": {"type": "object", "additionalProperties": {}}})
class ObjectListField(serializers.Field):
    """A list of JSON objects."""

    def to_internal_value(self, data: Any) -> list[dict[str, Any]]:
        if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
            raise ValidationError("must be a list of objects")
        if len(data) > MAX_STEPS:
            raise ValidationError(f"at most {MAX_STEPS} objects, not {len(data)}")
        return data

    def to_representation(self, value: Any) -> Any:
        return value


@extend_schema_field({"type": "object", "additionalProperties": {}})
class ObjectField(serializers.Field):
    """Any JSON object."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise ValidationError("must be an object")
        return data

    def to_representation(self, value: Any) -> Any:
        return value


@extend_schema_field(
    {
        "anyOf": [
            *({"type": name} for name in ("string", "number", "boolean")),
            {"type": "array", "items": {}},
            {"type": "object", "additionalProperties": {}},
        ]
    }
)
class AnyJSONField(serializers.JSONField):
    """Any JSON value, and null where it is allowed."""


_MESSAGES: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"role": {"type": "string", "enum": list(ROLES)}, "content": {"type": "string"}},
        "required": ["role", "content"],
        "additionalProperties": False,
    },
}


@extend_schema_field({"oneOf": [{"type": "string"}, {**_MESSAGES, "minItems": 1, "maxItems": MAX_MESSAGES}]})
class PromptField(serializers.Field):
    """Chat messages, or text that stands for one user message."""

    def to_internal_value(self, data: Any) -> list[Message]:
        if isinstance(data, str) and data:
            return [Message(role="user", content=data)]
        if not isinstance(data, list) or not data:
            raise ValidationError("must be text, or a list of at least one {role, content}; neither may be empty")
        if len(data) > MAX_MESSAGES:
            raise ValidationError(f"at most {MAX_MESSAGES} messages, not {len(data)}")
        errors: Any = {index: [reason] for index, item in enumerate(data) if (reason := _wrong_message(item))}
        if errors:
            raise ValidationError(errors)
        return data

    def to_representation(self, value: Any) -> Any:
        return value


@extend_schema_field(_MESSAGES)
class MessagesField(PromptField):
    """How a prompt is given back: always as messages."""


def _wrong_message(item: Any) -> str:
    if not isinstance(item, dict) or set(item) != {"role", "content"}:
        return "must be {role, content} and nothing else; what else is known belongs into details"
    if item["role"] not in ROLES:
        return f"role must be one of {', '.join(ROLES)}"
    return "" if isinstance(item["content"], str) else "content must be text"


def raters_field() -> WholeNumberField:
    return WholeNumberField(
        min_value=1,
        max_value=MOST_RATERS,
        required=False,
        help_text="How many may judge it by its token; 1 if left out.",
    )
