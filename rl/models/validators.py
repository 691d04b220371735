"""Validators of an agent's fields."""

from typing import Any

from django.core.exceptions import ValidationError

from rl.base.errors import UsageError
from rl.base.slugs import check_slug
from rl.config import check_overrides
from rl.config.groups import read_group_keys
from rl.config.guard_limits import check_guard_limits
from rl.config.levels import check_level
from rl.config.reward_weights import check_decision_weights, check_reward_weights
from rl.config.schemas import check_answer_schema, check_answer_values


def validate_name(value: str) -> None:
    as_validation_error(check_slug, value, "agent name")


def validate_level(value: str) -> None:
    as_validation_error(check_level, value)


def validate_overrides(value: object) -> None:
    if not isinstance(value, dict):
        raise ValidationError("must be a JSON object of hyper-parameters")
    as_validation_error(check_overrides, value)


def validate_reward_weights(value: object) -> None:
    as_validation_error(check_reward_weights, value)


def validate_decision_weights(value: object) -> None:
    as_validation_error(check_decision_weights, value)


def validate_answer_values(value: object) -> None:
    as_validation_error(check_answer_values, value)


def validate_answer_schema(value: object) -> None:
    as_validation_error(check_answer_schema, value)


def validate_guard_limits(value: object) -> None:
    as_validation_error(check_guard_limits, value)


def validate_group_keys(value: str) -> None:
    as_validation_error(read_group_keys, value)


def as_validation_error(check: Any, *arguments: object) -> None:
    try:
        check(*arguments)
    except UsageError as error:
        raise ValidationError(str(error)) from error
