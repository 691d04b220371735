from typing import Any

import pytest
from django.db import IntegrityError, transaction

from rl.base.errors import RunConflict
from rl.base.records import Message
from rl.collect.traces.rows import ATTEMPTS, TraceRows, find_traces, look_again, same_words
from rl.models import Agent, Trace, prompt_key
from tests.conftest import make_trace

PROMPT = (Message(role="user", content="Where is it?"),)


def new(agent: Agent, external_id: str | None = "a1", **fields: Any) -> Trace:
    values = {"prompt": list(PROMPT), "prompt_key": prompt_key(PROMPT), "response": "Here.", **fields}
    return Trace(agent=agent, external_id=external_id, **values)


def test_answers_are_found_by_agent_and_external_id_in_one_query(agent, django_assert_num_queries):
    other = Agent.objects.create(name="other")
    here = [make_trace(owner, external_id=name) for owner, name in ((agent, "a1"), (agent, "a2"), (other, "a1"))]
    keys = [(trace.agent_id, trace.external_id or "") for trace in here]
    with django_assert_num_queries(1):
        assert find_traces([*keys, (other.pk, "a2")]) == dict(zip(keys, here, strict=True))
    with django_assert_num_queries(0):
        assert find_traces([]) == {}


@pytest.mark.parametrize(
    ("prompt", "response", "key", "same"),
    [
        (PROMPT, "Here.", "", True),
        (PROMPT, "Here.", "q1", True),
        (PROMPT, "Here.", "q2", False),
        (PROMPT, "There.", "", False),
        (({**PROMPT[0], "role": "system"},), "Here.", "", False),
    ],
)
def test_prompt_and_response_are_the_words_and_a_key_where_there_is_one(prompt, response, key, same):
    here = Trace(prompt=[dict(message) for message in PROMPT], prompt_key="q1", response="Here.")
    assert same_words(here, prompt, response, key) is same


def test_an_answer_that_comes_twice_at_once_is_the_one_that_was_added(agent):
    rows = TraceRows([(agent.pk, "a1")])
    first = new(agent)
    rows.add(first)
    assert rows.get(agent.pk, "a1") is first
    assert rows.change(first, {"tokens_in": 3})
    rows.save()
    assert Trace.objects.get().tokens_in == 3


def test_answers_without_an_external_id_stand_beside_each_other(agent):
    rows = TraceRows([])
    rows.add(new(agent, None))
    rows.add(new(agent, None))
    rows.save()
    assert Trace.objects.count() == 2


@pytest.mark.database
def test_new_facts_make_the_reward_due_again_and_known_ones_change_nothing(agent, django_assert_num_queries):
    make_trace(agent, external_id="a1", details={"n": 1e23}, reward_pending=False)
    rows = TraceRows([(agent.pk, "a1")])
    here = rows.get(agent.pk, "a1")
    assert not rows.change(here, {"details": {"n": 1e23}})
    with django_assert_num_queries(0):
        rows.save()
    assert rows.change(here, {"details": {"n": 2}, "tokens_in": None})
    rows.save()
    assert Trace.objects.values_list("details", "reward_pending").get() == ({"n": 2}, True)


def test_whoever_comes_second_looks_again(agent):
    rounds = []

    def write() -> Trace | None:
        rows = TraceRows([(agent.pk, "a1")])
        rounds.append(rows.get(agent.pk, "a1"))
        if len(rounds) == 1:
            make_trace(agent, external_id="a1")  # somebody else, at this moment
        with transaction.atomic():
            if rounds[-1] is None:
                rows.add(new(agent))
            rows.save()
        return rounds[-1]

    assert look_again(write, "try again") == Trace.objects.get()
    assert rounds == [None, Trace.objects.get()]


def test_who_comes_second_every_time_is_told():
    tries = []

    def write() -> None:
        tries.append(1)
        raise IntegrityError

    with pytest.raises(RunConflict, match="stored by others"):
        look_again(write, "stored by others")
    assert len(tries) == ATTEMPTS
