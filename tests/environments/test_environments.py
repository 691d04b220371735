from __future__ import annotations

import pytest

from rl.environments import ENVIRONMENTS, environment_class
from rl.environments.base import Environment
from rl.errors import UsageError
from tests.environments.test_base import FindTheCat


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_those_of_the_table_are_environments(name: str):
    assert issubclass(environment_class(name), Environment)


def test_one_of_your_own_is_named_by_its_path():
    assert environment_class("tests.environments.test_base:FindTheCat") is FindTheCat


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("cod_exec", "unknown environment 'cod_exec'; known: code_exec, search"),
        ("no.such:Thing", "there is no environment no.such:Thing"),
        ("tests.environments.test_base:Nothing", "there is no environment"),
        ("tests.environments.test_base:Look", "is no environment: it must be a class made from"),
    ],
    ids=["name", "module", "class", "kind"],
)
def test_what_is_none_is_refused(name: str, told: str):
    with pytest.raises(UsageError, match=told):
        environment_class(name)
