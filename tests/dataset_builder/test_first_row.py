from dataclasses import replace
from typing import Any

import pytest

from rl.collect.importers.report import MOST_JUDGED, ImportSample
from rl.collect.traces.imported import ImportedFeedback, ImportedTrace, Rejected
from rl.dataset_builder.first_row import FirstRow, first_row, stored_row
from rl.models import Agent, Feedback, Trace
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate, rated

pytestmark = pytest.mark.database

LIKED = ImportedFeedback(kind="rating", rater="import", scale="thumb", value=1)
SO_SO = ImportedFeedback(kind="rating", rater="import", scale="stars", value=3)


def answer(number: int, *feedback: ImportedFeedback, question: str = "Where?", **fields: Any) -> ImportedTrace:
    prompt = ({"role": "user", "content": question},)
    name = f"answer {number}"
    made = ImportedTrace(where=f"line {number}", external_id=name, prompt=prompt, response=name, feedback=feedback)
    return replace(made, **fields)


def found(agent: Agent | None, *records: ImportedTrace | Rejected) -> FirstRow:
    sample = ImportSample()
    for record in records:
        sample.saw(record)
    first = first_row(sample, "trl", agent)
    assert first is not None
    assert not Trace.objects.exists()
    assert not Feedback.objects.exists()
    return first


def words(first: FirstRow, name: str) -> str:
    return str(first.rows[0][name][-1]["content"])


def test_an_answer_that_is_better_than_another_is_shown_beside_it_and_nothing_stays(agent: Agent):
    better = ImportedFeedback(kind="comparison", rater="import", choice="left", other_external_id="answer 1")
    first = found(agent, Rejected("line 0", "is not JSON"), answer(1), answer(2, better), answer(3, LIKED))
    assert (first.name, first.agent) == ("as it would be trained: line 2", agent)
    assert (words(first, "chosen"), words(first, "rejected")) == ("answer 2", "answer 1")
    assert Agent.objects.get().name == agent.name


def test_an_opinion_of_which_nothing_comes_is_passed_over(agent: Agent):
    first = found(agent, answer(1, SO_SO), answer(2, LIKED))
    assert (first.name, words(first, "chosen")) == ("as it would be trained: line 2", "answer 2")


def test_where_no_row_comes_the_reason_is_told(agent: Agent):
    first = found(agent, *(answer(number, SO_SO) for number in range(MOST_JUDGED + 3)))
    assert first.rows == []
    assert first.skipped["rating in the middle of its scale"] == 1


def test_files_without_an_opinion_show_what_a_liked_answer_would_become(agent: Agent):
    first = found(agent, answer(1), answer(2))
    assert first.name == "as it would be if somebody liked it: line 1"
    assert words(first, "chosen") == "answer 1"


def test_the_row_is_asked_as_the_agent_is(agent: Agent):
    Agent.objects.filter(pk=agent.pk).update(system_prompt="Be brief.")
    agent.refresh_from_db()
    first = found(agent, answer(1, LIKED))
    assert [message["content"] for message in first.rows[0]["prompt"]] == ["Be brief.", "Where?"]


@pytest.mark.django_db
def test_a_new_agent_and_one_that_the_record_names_are_not_made():
    assert words(found(Agent.new("new"), answer(1, LIKED)), "chosen") == "answer 1"
    assert found(None, answer(1, LIKED, agent="named")).agent.name == "named"
    assert not Agent.objects.exists()


def test_of_answers_that_are_here_already_the_agents_own_first_row_is_shown(agent: Agent):
    rate(make_trace(agent, "Where?", "So so."), 3, scale="stars")
    assert (stored_row(agent).rows, stored_row(agent).skipped.total() > 0) == ([], True)
    rated(agent, "Where?", "Here.", 1)
    rated(agent, "And where?", "There.", 1)
    assert len(stored_row(agent).rows) == 1
