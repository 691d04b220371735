from __future__ import annotations

import pytest

from rl.collect.feedback.write import compare
from rl.models import Agent, ModelVersion
from rl.trust.table import version_table
from tests.conftest import make_trace

pytestmark = pytest.mark.django_db


def test_picks_between_a_version_and_the_base_model_make_a_table(agent: Agent):
    version = ModelVersion.objects.create(agent=agent, name="v286", base_model="tiny", feedback_count=1)
    for number in range(12):
        question = f"question {number}"
        new = make_trace(agent, question, "new", model_version=version, source="gateway")
        old = make_trace(agent, question, "old", source="gateway")
        unknown = make_trace(agent, question, "unknown")
        compare(old, new, choice="left" if number < 3 else "right", rater="user:alice", source="try_page")
        compare(new, unknown, choice="left", rater="user:alice", source="try_page")
    first, base = version_table(agent)
    assert (first.name, first.games, base.name) == (version.name, 12, "base")
    assert 0.6 < first.against_base.value < 0.75
    assert first.against_base.low < 0.5 < first.against_base.high


def test_without_picks_there_is_the_base_model_alone(agent: Agent):
    assert [standing.name for standing in version_table(agent)] == ["base"]
