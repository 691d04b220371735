"""Which details an agent names for its groups."""

import pytest

from rl.base.errors import UsageError
from rl.config.groups import read_group_keys


def test_keys_stand_with_commas_between():
    assert read_group_keys(" language,plan , topic-2,") == ("language", "plan", "topic-2")
    assert read_group_keys("") == ()


@pytest.mark.parametrize("text", ["a b", "1st", "x" * 41, "größe", 'a"]', "a,b,c,d,e", "plan,plan", "details.plan"])
def test_other_keys_are_refused(text: str):
    with pytest.raises(UsageError):
        read_group_keys(text)
