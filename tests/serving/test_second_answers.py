"""Alice asked; in idle time somebody answers once more."""

import threading
from collections.abc import Iterator

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from rl import tasks
from rl.collect.feedback import write
from rl.models import Agent, AnswerPair, Arm, Deployment, Experiment, ModelVersion, Trace, TrainingRun
from rl.serving import machine, second_answers
from rl.serving.second_answers import SOURCE, waiting
from tests.conftest import make_trace
from tests.serving.gateway.upstream_double import UpstreamDouble, upstream_double
from tests.waiting import until

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def upstream() -> Iterator[UpstreamDouble]:
    with upstream_double() as double:
        yield double


@pytest.fixture
def live(agent: Agent, upstream: UpstreamDouble, data_dir) -> ModelVersion:
    """The version in use, which answered three people."""
    version = deploy(agent, "v1", upstream, alias="champion")
    for number in range(3):
        asked(agent, version, f"Number {number}, where is my parcel?")
    return version


def deploy(agent: Agent, name: str, upstream: UpstreamDouble, alias: str = "") -> ModelVersion:
    version = ModelVersion.objects.create(agent=agent, name=name, base_model="tiny", feedback_count=1)
    Deployment.objects.create(
        agent=agent, version=version, target="openai", url=upstream.url, model_name=name, alias=alias
    )
    return version


def asked(agent: Agent, version: ModelVersion, question: str, **fields) -> Trace:
    return make_trace(agent, question, "On its way.", model_version=version, source="gateway", **fields)


def left_by(upstream: UpstreamDouble) -> int:
    """Requests that were broken off; the server sees it a moment later."""
    return until(lambda: upstream.left)


@pytest.mark.database
def test_the_version_in_use_answers_again_where_there_is_no_candidate(agent, live, upstream):
    assert tasks.make_second_answers() == 3
    pairs = list(AnswerPair.objects.all())
    made = Trace.objects.filter(source=SOURCE)
    assert len(pairs) == made.count() == len(set(made.values_list("prompt_key", flat=True))) == 3
    for pair in pairs:
        assert pair.left.prompt == pair.right.prompt
        assert {pair.left.source, pair.right.source} == {"gateway", SOURCE}
        assert {pair.left.model_version, pair.right.model_version} == {live}
    assert upstream.last["temperature"] == 0.8
    assert tasks.make_second_answers() == 0, "each prompt once"


def test_a_candidate_and_the_version_in_use_answer_what_the_other_has_answered(agent, live, upstream):
    candidate = deploy(agent, "v2", upstream)
    asked(agent, candidate, "And when?", details={"parameters": {"temperature": 0.1, "seed": 3}})
    assert tasks.make_second_answers() == 4
    for pair in AnswerPair.objects.all():
        assert {pair.left.model_version, pair.right.model_version} == {live, candidate}
    [body] = [body for body in upstream.bodies if body["messages"][-1]["content"] == "And when?"]
    assert (body["model"], body["temperature"], "seed" in body) == ("v1", 0.1, False)


def test_parameters_that_whoever_sent_the_trace_made_up_are_left_out(agent, live, upstream):
    candidate = deploy(agent, "v2", upstream)
    made_up = {"temperature": 900, "max_tokens": 10**8, "max_completion_tokens": "all", "top_p": 0.5}
    asked(agent, candidate, "And when?", details={"parameters": made_up})
    asked(agent, candidate, "And how?", details={"parameters": ["temperature"]})
    assert tasks.make_second_answers() == 5
    [body] = [body for body in upstream.bodies if body["messages"][-1]["content"] == "And when?"]
    assert (body["top_p"], body["max_tokens"], "temperature" in body) == (0.5, 131_072, False)
    assert "max_completion_tokens" not in body


def test_both_sides_keep_to_the_schema_of_the_agent_or_the_form_that_the_first_was_asked_in(agent, live, upstream):
    schema = {"type": "object", "properties": {"team": {"type": "string"}}}
    Agent.objects.update(answer_kind="structured", answer_schema=schema)
    asked(agent, live, "In my form?", details={"parameters": {"response_format": {"type": "json_object"}}})
    assert tasks.make_second_answers() == 4
    forms = {body["messages"][-1]["content"]: body["response_format"] for body in upstream.bodies}
    assert forms.pop("In my form?") == {"type": "json_object"}
    assert [form["json_schema"]["schema"] for form in forms.values()] == [schema] * 3


def test_a_set_is_chosen_from_by_the_other_version_and_never_twice_by_the_same(agent, live, upstream):
    Agent.objects.update(answer_kind="closed", answer_values=["cards", "cash"])
    assert tasks.make_second_answers() == 0
    assert upstream.bodies == []
    deploy(agent, "v2", upstream)
    tasks.make_second_answers()
    assert upstream.bodies[0]["structured_outputs"] == {"choice": ["cards", "cash"]}


def test_an_answer_in_the_same_words_makes_no_pair(agent, live, upstream):
    Trace.objects.update(response="v1 says hello 0")
    assert tasks.make_second_answers() == 0
    assert not AnswerPair.objects.exists()
    assert Trace.objects.filter(source=SOURCE).count() == 1


@pytest.mark.database
def test_no_more_wait_than_the_agent_says_and_a_comparison_makes_room(agent, live):
    Agent.objects.update(second_answers=2)
    assert tasks.make_second_answers() == 2
    pair = AnswerPair.objects.first()
    write.compare(pair.right, pair.left, choice="left", rater="user:alice", source="test")
    assert waiting(agent).count() == 1
    assert tasks.make_second_answers() == 1
    Agent.objects.update(second_answers=0)
    assert tasks.make_second_answers() == 0


def test_nothing_is_made_while_somebody_asks_or_a_training_is_due(agent, live, upstream):
    machine.note_request()
    assert tasks.make_second_answers() == 0
    with pytest.raises(CommandError, match="the gateway had a request a moment ago"):
        call_command("second_answers", "--agent", agent.name)
    machine._path().unlink()
    TrainingRun.objects.create(agent=agent, method="dpo")
    assert tasks.make_second_answers() == 0
    assert upstream.bodies == []


@pytest.mark.database
def test_an_answer_is_broken_off_when_somebody_asks(agent, live, upstream):
    Trace.objects.all().delete()
    asked(agent, live, "wait")
    threading.Timer(0.5, machine.note_request).start()
    assert tasks.make_second_answers() == 0
    assert left_by(upstream) == 1
    assert not AnswerPair.objects.exists()
    assert Trace.objects.count() == 1


def test_what_a_server_refuses_makes_no_pair(agent, live, upstream):
    Trace.objects.all().delete()
    asked(agent, live, "status 500")
    assert tasks.make_second_answers() == 0
    assert not AnswerPair.objects.exists()


@pytest.mark.database
def test_an_experiment_and_the_time_of_the_last_request_know_nothing_of_it(agent, live):
    trial = Experiment.objects.create(agent=agent, name="trial", state="running", started_at=agent.created_at)
    arm = Arm.objects.create(experiment=trial, version=live, is_control=True)
    assert tasks.make_second_answers() == 3
    arm.refresh_from_db()
    assert (arm.requests, trial.assignments.count(), machine.seconds_since_request()) == (0, 0, None)


def test_two_processes_never_do_it_at_once(agent, live):
    with second_answers._alone() as first, second_answers._alone() as second:
        assert (first, second) == (True, False)
        assert second_answers.make([agent]) == 0


def test_the_command_says_how_many(agent, live, capsys):
    call_command("second_answers", "--agent", agent.name, "--limit", "2", "--json")
    assert '"made": 2' in capsys.readouterr().out
    with pytest.raises(CommandError, match="at least 1"):
        call_command("second_answers", "--agent", agent.name, "--limit", "0")
