"""Every setting has somebody who may set it, and what a trainer may set has bounds."""

from dataclasses import fields

import pytest

from rl.base.errors import UsageError
from rl.config import METHODS, TrainingConfig, check_overrides
from rl.config.authority import (
    AGENT,
    DATA_OPTIONS,
    HYPER_PARAMETERS,
    RUN_OPTIONS,
    Owner,
    operators_settings,
    owner,
    require_trainers,
)
from rl.config.fields import ranges_of
from rl.dataset_builder import DataOptions
from rl.models import Agent
from rl.runs.choosing import RunOptions
from tests import security_tables


def names(kind: type) -> set[str]:
    return {field.name for field in fields(kind)}


def test_every_field_of_every_method_is_named_and_no_other():
    assert set().union(*(names(method.config) for method in METHODS.values())) == set(HYPER_PARAMETERS)
    assert names(RunOptions) == set(RUN_OPTIONS)
    assert names(DataOptions) == set(DATA_OPTIONS)


def test_every_field_of_an_agent_that_can_be_edited_is_named_and_no_other():
    editable = {field.name for field in Agent._meta.get_fields() if getattr(field, "editable", False)} - {"id"}
    assert editable == set(AGENT)


@pytest.mark.parametrize("kind", [method.config for method in METHODS.values()], ids=list(METHODS))
def test_what_a_trainer_sets_is_a_number_within_bounds_words_of_a_list_or_a_switch(kind: type[TrainingConfig]):
    for field in fields(kind):
        if owner(HYPER_PARAMETERS, field.name) is not Owner.TRAINER:
            continue
        if field.name == "instruction":  # free words for the model, of which nothing else is made
            with pytest.raises(UsageError, match="at most 500 characters"):
                kind(instruction="x" * 501)
            continue
        bounded = field.name in {*ranges_of(kind), *kind.CHOICES, *kind.LISTS, *kind.PATTERNS} or isinstance(
            field.default, bool
        )
        assert bounded, field.name
        with pytest.raises(UsageError, match=field.name):
            kind(**{field.name: "/bin/canary"})


def test_what_no_table_names_is_the_operators():
    assert owner(HYPER_PARAMETERS, "new_one") is Owner.OPERATOR
    assert owner({}, "epochs") is Owner.OPERATOR


def test_a_field_that_the_table_forgot_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(HYPER_PARAMETERS, "lora_r")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="lora_r is for the operator alone"):
        check_overrides({"lora_r": 4})
    assert operators_settings(HYPER_PARAMETERS, {"lora_r": 4, "seed": 1}, {"lora_r": 16, "seed": 42}) == ["lora_r"]


def test_a_refusal_does_not_repeat_the_value():
    with pytest.raises(UsageError) as refusal:
        require_trainers({"environment": {"type": "secret.module:Class"}})
    assert "secret" not in str(refusal.value)


def test_the_security_page_has_the_table():
    parts = {
        "hyper-parameter": HYPER_PARAMETERS,
        "option of a run": RUN_OPTIONS,
        "which rows": DATA_OPTIONS,
        "agent": AGENT,
    }
    rows = [
        (title, who.value, ", ".join(f"`{name}`" for name, each in sorted(table.items()) if each is who))
        for title, table in parts.items()
        for who in Owner
        if who in table.values()
    ]
    security_tables.check("authority", security_tables.table(("what", "set by", "names"), *rows))
