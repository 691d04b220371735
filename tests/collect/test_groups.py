"""Which questions belong to which group."""

from typing import Any

import pytest

from rl.collect.groups import MOST_GROUPS, Group, choose_groups, find_groups
from rl.models import Agent
from tests.conftest import make_trace

pytestmark = pytest.mark.django_db


@pytest.fixture
def grouped(agent: Agent) -> Agent:
    agent.group_by = "language, plan"
    return agent


def names(agent: Agent, **details: Any) -> list[str]:
    trace = make_trace(agent, details=details)
    return [str(group) for group in find_groups(agent, [trace.prompt_key])]


@pytest.mark.database
def test_texts_whole_numbers_and_truth_values_make_groups(grouped: Agent):
    assert names(grouped, language="de", plan=3, other="x") == ["language = de", "plan = 3"]
    trace = make_trace(grouped, "Another", details={"plan": True})
    assert list(find_groups(grouped, [trace.prompt_key])) == [Group("plan", "true")]


@pytest.mark.database
@pytest.mark.parametrize("value", [None, "", " ", {"a": 1}, ["de"], "x" * 61, "a\u202eb", "a\x07"])
def test_what_is_no_short_name_makes_none(grouped: Agent, value: object):
    assert names(grouped, language=value) == []


@pytest.mark.database
def test_white_space_and_quotes_change_nothing(grouped: Agent):
    assert names(grouped, language=" de\n ", plan='"; DROP') == ["language = de", 'plan = "; DROP']


@pytest.mark.database
def test_metadata_of_a_request_to_the_gateway_counts_and_details_come_first(grouped: Agent):
    metadata = {"language": "fr", "plan": "free"}
    assert names(grouped, plan="pro", parameters={"metadata": metadata}) == ["language = fr", "plan = pro"]


def test_a_prompt_that_people_of_two_groups_have_asked_belongs_to_both(grouped: Agent, django_assert_num_queries):
    traces = [make_trace(grouped, details={"language": language}) for language in ("de", "en", "de")]
    traces.append(make_trace(grouped, "Hallo", details={"language": "de"}))
    make_trace(grouped, "Not asked about", details={"language": "fr"})
    keys = {trace.prompt_key for trace in traces}
    with django_assert_num_queries(1):
        found = find_groups(grouped, keys)
    assert {group.value: set(prompts) for group, prompts in found.items()} == {
        "de": keys,
        "en": {traces[0].prompt_key},
    }


def test_other_agents_say_nothing_and_without_keys_nobody_is_asked(grouped: Agent, django_assert_num_queries):
    other = make_trace(Agent.objects.create(name="other"), details={"language": "de"})
    assert find_groups(grouped, [other.prompt_key]) == {}
    grouped.group_by = ""
    with django_assert_num_queries(0):
        assert find_groups(grouped, [other.prompt_key]) == {}


def test_of_each_key_the_largest_are_looked_at():
    sizes = {Group("plan", f"p{number:02}"): 10 + number for number in range(20)}
    chosen = choose_groups({**sizes, Group("language", "de"): 9, Group("language", "en"): 8}, 9)
    assert chosen[0] == Group("language", "de")
    assert [group.value for group in chosen[1:]] == [f"p{number:02}" for number in range(19, 19 - MOST_GROUPS, -1)]
