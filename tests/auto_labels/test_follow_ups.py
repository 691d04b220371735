from datetime import timedelta

import pytest
from django.utils import timezone

from rl.auto_labels import follow_ups
from rl.auto_labels.follow_ups import find_next_messages
from rl.models import Agent
from rl.models.traces import DUEL
from tests.auto_labels.conversations import go_on
from tests.conftest import make_trace

NOW = timezone.now()


@pytest.fixture
def agent(db) -> Agent:
    """Without a base model: nothing is read here but the database."""
    return Agent.objects.create(name="support-chat", base_model="tiny")


def texts(agent: Agent) -> dict[str, str]:
    return {message.answer: message.text for message in find_next_messages(agent).values()}


def test_the_conversation_in_a_later_prompt_tells_what_was_written_next(agent: Agent) -> None:
    first = make_trace(agent, "Where is it?", "On its way.", session_id="s")
    second = go_on(agent, first, "No, shorter.", response="Coming.")
    third = go_on(agent, second, "Thanks!", response="Welcome.")
    found = find_next_messages(agent)
    assert {pk: message.text for pk, message in found.items()} == {first.pk: "No, shorter.", second.pk: "Thanks!"}
    assert (found[second.pk].next_id, found[second.pk].question) == (third.pk, "No, shorter.")
    assert {message.conversation for message in found.values()} == {"s"}


def test_one_conversation_without_a_session_is_known_by_how_it_began(agent: Agent) -> None:
    first = make_trace(agent, "Where is it?", "On its way.")
    go_on(agent, go_on(agent, first, "Shorter.", response="Coming."), "Thanks!")
    go_on(agent, make_trace(agent, "When?", "Tomorrow."), "Thanks!")
    assert len({message.conversation for message in find_next_messages(agent).values()}) == 2


def test_what_tools_said_on_the_way_to_an_answer_is_passed_over(agent: Agent) -> None:
    first = make_trace(agent, "Where is it?", "In Ulm.")
    calls = [{"role": "assistant", "content": ""}, {"role": "tool", "content": "Ulm"}]
    later = go_on(agent, first, "Thanks!")
    later.prompt = [*later.prompt[:1], *calls, *later.prompt[1:]]
    later.save()
    assert texts(agent) == {"In Ulm.": "Thanks!"}


@pytest.mark.parametrize("fields", [{"session_id": "other"}, {"unit": "bob"}, {"source": DUEL}])
def test_another_users_message_is_not_the_next_one(agent: Agent, fields) -> None:
    go_on(agent, make_trace(agent, "Where is it?", "On its way.", session_id="s", unit="alice"), "Thanks!", **fields)
    assert texts(agent) == {}


def test_another_agents_message_and_an_unusable_one_are_not_read(agent: Agent) -> None:
    other = Agent.objects.create(name="other", base_model="tiny")
    first = make_trace(agent, "Where is it?", "On its way.")
    go_on(other, first, "Thanks!")
    go_on(agent, first, "Thanks!", details={"split": "never"})
    assert texts(agent) == {}


def test_of_two_messages_behind_one_answer_the_first_is_read(agent: Agent) -> None:
    first = make_trace(agent, "Where is it?", "On its way.")
    go_on(agent, first, "No!")
    go_on(agent, first, "Thanks!")
    assert texts(agent) == {"On its way.": "No!"}


def test_a_session_tells_what_came_next_where_the_app_sends_no_conversation(agent: Agent) -> None:
    ours = {"session_id": "s", "unit": "alice"}
    make_trace(agent, "Where is it?", "On its way.", occurred_at=NOW - timedelta(minutes=9), **ours)
    make_trace(agent, "Where is it?", "In Ulm.", occurred_at=NOW - timedelta(minutes=8), **ours)
    make_trace(agent, "And tomorrow?", "At home.", occurred_at=NOW + timedelta(hours=2), **ours)
    make_trace(agent, "Hello?", "Hello.", occurred_at=NOW - timedelta(minutes=7), session_id="s", unit="bob")
    for minutes in (3, 2):
        make_trace(agent, f"{minutes}?", "Ja.", occurred_at=NOW - timedelta(minutes=minutes), session_id="default")
    assert texts(agent) == {"On its way.": "Where is it?"}


@pytest.mark.database
def test_however_many_conversations_there_are_it_asks_the_database_once_for_some_hundred(
    agent: Agent, monkeypatch, django_assert_num_queries
) -> None:
    monkeypatch.setattr(follow_ups, "AT_ONCE", 20)
    for number in range(20):
        go_on(agent, make_trace(agent, f"Where is {number}?", "On its way."), "Thanks!")
    with django_assert_num_queries(3):  # the traces, and for each twenty of them those before
        assert len(find_next_messages(agent)) == 20


def test_a_judge_reads_the_message_as_the_answer_to_what_the_agent_wrote(agent: Agent) -> None:
    go_on(agent, make_trace(agent, "Where is it?", "On its way."), "Thanks!")
    (message,) = find_next_messages(agent).values()
    assert message.turned_round == ([{"role": "user", "content": "Where is it?\n\nOn its way."}], "Thanks!")
