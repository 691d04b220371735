import json
from functools import partial

import pytest
from django.core.management import CommandError

from rl.models import Agent
from tests.commands.printing import printed, refused
from tests.dataset_builder.ratings import rate_prompts, rated

told = partial(printed, "training_plan")


def test_it_advises_an_agent(agent):
    for number in range(12):
        rated(agent, f"Question {number}?", "Well.", number % 2)
    text = told("--agent", "support-chat")
    assert "support-chat: train with mpo: every kind of rating trains in one run: 0 pairs, 12 single answers" in text
    assert "10 more pairs" in text.replace("\n", " ")


def test_it_answers_for_every_agent_with_one_document(agent):
    Agent.objects.create(name="other")
    rate_prompts(agent, 12)
    document = json.loads(told("--json"))
    assert {one["agent"]: one["advice"]["method"] for one in document["agents"]} == {"other": "", "support-chat": "mpo"}


@pytest.mark.django_db
def test_without_agents_it_says_so():
    refused(told, "there are no agents yet")


def test_rare_classes_and_the_numbers_that_a_run_would_choose_are_named(agent):
    for number in range(15):
        rated(agent, f"Question {number}?", "identity" if number < 3 else "cards", 1)
    text = told("--agent", "support-chat").replace("\n", " ")
    assert "support-chat: train with mpo" in text
    assert "support-chat: answers are closed: 15 accepted answers are 2 distinct ones" in text
    assert "support-chat: 3 of `identity`: 7 more would help" in text
    assert "15 rows on a" in text
    assert "accepted ones are imitated" in text
    [document] = json.loads(told("--json"))["agents"]
    assert document["accepted"]["rare"] == [{"name": "identity", "accepted": 3, "missing": 7}]
    assert "passes" in document["chosen"]


@pytest.mark.learn
def test_rows_are_shown_as_the_model_would_see_them(agent, tiny_base):
    Agent.objects.filter(pk=agent.pk).update(base_model=str(tiny_base))
    rate_prompts(agent, 12)
    [document] = json.loads(told("--show", "2", "--json"))["agents"]
    assert len(document["learns"]["rows"]) == 2
    first = document["learns"]["rows"][0]
    assert first["prompt"].endswith("<|im_end|>\n<|im_start|>assistant\n")
    assert first["answers"][0]["pieces"][-1] == ["<|im_end|>", True]
    assert "[<|im_end|>]" in told("--show", "2")


def test_where_no_method_is_advised_the_rows_that_there_are_can_be_looked_at(agent):
    Agent.objects.filter(pk=agent.pk).update(base_model="nobody/not-here")
    rated(agent, "Where is it?", "In Bonn.", 1)
    text = told("--show", "2")
    assert "nothing can be trained yet" in text
    assert "user: Where is it?" in text
    assert "[In Bonn.]" in text


def test_it_says_how_rows_that_would_be_refused_are_seen(agent):
    rate_prompts(agent, 12)
    assert "chats that the model's template refuses" in (text := told().replace("\n", " "))
    assert "'training_plan --show 5' counts them by reason" in text


def test_more_rows_than_anybody_reads_are_refused(agent):
    with pytest.raises(CommandError, match="show must be from 0 to 100"):
        told("--show", "101")
