"""Commands without --agent."""

import pytest

from rl.base.errors import UsageError
from rl.collect.feedback.write import rate
from rl.management.base import ANSWERS, NOTHING, RATINGS, VERSIONS, choose_agent
from rl.models import Agent, ModelVersion
from tests.conftest import make_trace

pytestmark = [pytest.mark.database, pytest.mark.django_db]


def choose(name, need):
    lines = []
    return choose_agent(name, need, lambda event, values: lines.append(values["text"])), lines


def test_the_only_one_that_has_what_is_needed_is_taken_and_told(agent):
    Agent.objects.create(name="empty")
    rate(make_trace(agent), rater="alice", scale="thumb", value=1, source="test")
    assert choose(None, RATINGS) == (agent, ["agent: support-chat, the only one with ratings"])
    ModelVersion.objects.create(agent=agent, name="v1", base_model="tiny", feedback_count=1)
    assert choose(None, VERSIONS)[0] == agent
    assert choose("empty", RATINGS) == (Agent.objects.get(name="empty"), [])


def test_several_are_listed_and_none_is_told(agent):
    with pytest.raises(UsageError, match="no agent has answers yet"):
        choose(None, ANSWERS)
    other = Agent.objects.create(name="billing")
    make_trace(agent)
    make_trace(other)
    with pytest.raises(UsageError, match="--agent is missing: several have answers: billing, support-chat"):
        choose(None, ANSWERS)
    with pytest.raises(UsageError, match="several have a name: billing, support-chat"):
        choose(None, NOTHING)
    Agent.objects.filter(name="billing").delete()
    Agent.objects.all().delete()
    with pytest.raises(UsageError, match="there is no agent yet: see 'agent create'"):
        choose(None, NOTHING)
