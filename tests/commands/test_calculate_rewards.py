import json
from functools import partial
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from rl.collect.feedback.write import rate
from rl.models import Agent, Trace
from tests.commands.printing import printed, refused
from tests.conftest import make_trace

told = partial(printed, "calculate_rewards", no_color=True)

pytestmark = pytest.mark.django_db
CALLS = [{"tool_name": "search", "success": True}]


@pytest.fixture
def _traces(agent: Agent) -> None:
    rated = make_trace(agent, tool_calls=CALLS)
    rate(rated, rater="anna", scale="thumb", value=1, source="test")
    make_trace(agent)


@pytest.mark.usefixtures("_traces")
def test_it_prints_the_counts_and_a_table_of_components():
    text = told("--agent", "support-chat")
    for line in ("traces | 2", "got a reward | 1", "nothing applies | 1", "good | 1", "without a label | 1"):
        assert line in " ".join(text.replace("│", "|").split())
    assert "tool_success | 1 | 1.000 | 0.000 | 1 | 0" in " ".join(text.replace("│", "|").replace("┃", "|").split())


@pytest.mark.usefixtures("_traces")
def test_it_answers_with_one_document():
    document = json.loads(told("--json"))
    assert (document["read"], document["rewarded"], document["labels"]["good"]) == (2, 1, 1)
    assert document["components"]["feedback"] == {"count": 1, "mean": 1.0, "std": 0.0, "abstained": 1, "broken": 0}


@pytest.mark.usefixtures("_traces")
def test_pending_is_the_default_and_all_does_everything_again():
    reads = [json.loads(told("--json", *more))["read"] for more in ([], [], ["--pending"], ["--all"])]
    assert reads == [2, 0, 0, 2]
    assert told() == "No trace waits for its reward. --all computes those that have one again.\n"


@pytest.mark.usefixtures("_traces")
def test_a_dry_run_says_what_would_be_written_and_writes_nothing():
    assert "dry run, nothing was written" in told("--dry-run", "--limit", "1")
    assert Trace.objects.filter(reward_pending=True).count() == 2


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--agent", "nobody"], "unknown agent 'nobody'"),
        (["--limit", "0"], "--limit must be at least 1, not 0"),
    ],
)
def test_a_wrong_argument_is_exit_code_2(arguments, problem):
    refused(told, problem, *arguments)


@pytest.mark.usefixtures("_traces")
def test_a_reward_that_breaks_is_named_with_its_traces_and_exit_code_1(settings):
    settings.CUSTOM_REWARDS = {"brittle": "tests.rewards.records.Breaks"}
    out = StringIO()
    with pytest.raises(CommandError, match="2 traces have no reward because brittle broke") as caught:
        call_command("calculate_rewards", stdout=out, stderr=StringIO())
    assert caught.value.returncode == 1
    text = " ".join(out.getvalue().split())
    assert "broken 2: brittle" in text
    assert f"trace {Trace.objects.first().pk}: reward brittle: KeyError: 'no such thing'" in text


@pytest.mark.usefixtures("_traces")
def test_an_agent_with_wrong_settings_is_left_out_with_exit_code_2():
    wrong = Agent.objects.create(name="wrong", reward_weights={"luck": 1})
    make_trace(wrong)
    refused(told, "left out: wrong")
    assert Trace.objects.filter(reward_pending=True).count() == 1
