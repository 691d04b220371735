"""What answers are kept to: the schema as people's words tell it, and where it counts."""

import json
from typing import Any

import pytest

from rl.collect.feedback import write
from rl.collect.feedback.kept_answers import (
    AgentReader,
    StructuredAnswers,
    choosing_for,
    read_kept_answers,
    read_structured_answers,
    schema_for,
)
from rl.models import Agent, ApiKey, Deployment
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate

pytestmark = [pytest.mark.django_db, pytest.mark.database]
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}, "z": {"type": "null"}}, "required": ["z"]}


def answer(number: int, **fields: Any) -> str:
    return json.dumps({"team": ("cards", "cash")[number % 2], "about": f"letter {number}", **fields})


def accept(agent: Agent, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        rate(make_trace(agent, f"Message {number}", answer(number)), 1)


def test_twenty_accepted_objects_tell_the_schema(agent: Agent):
    accept(agent, 19)
    assert read_kept_answers(agent) is None
    accept(agent, 1, first=19)
    kept = read_kept_answers(agent)
    assert isinstance(kept, StructuredAnswers)
    assert kept.reason == "learned from 20 accepted answers"
    assert sorted(kept.schema["properties"]["team"]["enum"]) == ["cards", "cash"]
    assert kept.schema["properties"]["about"]["type"] == "string"


def test_answers_of_two_shapes_are_kept_to_nothing(agent: Agent):
    for number in range(40):
        said = json.dumps({"fixtures": [number]}) if number % 2 else answer(number)
        rate(make_trace(agent, f"Message {number}", said), 1)
    assert read_kept_answers(agent) is None


def test_an_agent_that_chats_too_is_kept_to_nothing(agent: Agent):
    accept(agent, 20)
    for number in range(2):
        rate(make_trace(agent, f"How are you? {number}", "Fine, thank you."), 1)
    assert read_kept_answers(agent) is None


def test_who_rates_in_a_browser_alone_changes_no_schema(agent: Agent):
    accept(agent, 20)
    before = read_kept_answers(agent)
    key, _ = ApiKey.create(name="page", kind=ApiKey.Kind.PUBLISHABLE, allowed_origins=["https://shop.example"])
    for number in range(30):
        trace = make_trace(agent, f"Mine {number}", "hm")
        write.correct(trace, text=answer(number, mine=True), rater=f"v{number}", source="widget", api_key=key)
    assert read_kept_answers(agent) == before


def test_a_schema_by_hand_comes_first_and_is_switched_off(agent: Agent):
    accept(agent, 20)
    agent.answer_schema = SCHEMA
    kept = read_structured_answers(agent)
    assert kept is not None
    assert (list(kept.schema["properties"]), kept.reason) == (["z", "a"], "as the agent's settings say")
    agent.keep_to_answers = False
    assert read_kept_answers(agent) is None
    agent.keep_to_answers, agent.answer_kind = True, "free"
    assert read_kept_answers(agent) is None


def test_it_counts_where_somebody_serves_the_agent(agent: Agent):
    agent.answer_schema = SCHEMA
    assert schema_for(agent) is None
    deployment = Deployment.objects.create(agent=agent, target="openai", url="http://localhost:8", model_name="m")
    assert schema_for(agent) is not None
    deployment.delete()
    agent.deploy_target = "llama_cpp"
    assert schema_for(agent) is not None


def test_what_other_servers_choose_is_measured_by_the_model_alone(agent: Agent):
    agent.answer_values = ["yes", "no"]
    trace = make_trace(agent, "Is it?", "yes")
    rate(trace, 1)
    Deployment.objects.create(agent=agent, target="ollama", model_name="m")
    rows = [{"prompt": trace.prompt, "prompt_key": trace.prompt_key}]
    choosing = choosing_for(agent, rows)
    assert choosing is not None
    assert (choosing.values, choosing.supports, choosing.by_model_alone) == (("yes", "no"), {}, True)
    agent.deploy_target = "llama_cpp"
    choosing = choosing_for(agent, rows)
    assert choosing is not None
    assert (list(choosing.supports), choosing.by_model_alone) == ([trace.prompt_key], False)


def test_the_reader_reads_again_what_was_said_since(agent: Agent):
    reader = AgentReader(read_kept_answers)
    reader.look()
    assert reader.of(agent) is None
    accept(agent, 20)
    assert reader.of(agent) is None
    reader.look()
    assert isinstance(reader.of(agent), StructuredAnswers)
    agent.keep_to_answers = False
    assert reader.of(agent) is None
