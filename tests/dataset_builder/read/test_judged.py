import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rl.collect.feedback import write
from rl.dataset_builder.read.groups import Tally
from rl.dataset_builder.read.judged import Wanted, judged_answers
from rl.dataset_builder.read.reliability import pseudonym
from rl.dataset_builder.read.runs import CUT_CALLS
from rl.models import Agent, LabelModel, LabelProposal, prompt_key
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate, rate_prompts, rated


def read(agent, **wanted):
    tally = Tally()
    return list(judged_answers(agent, tally, Wanted(**wanted))), tally


def propose(trace, good: bool, confidence: float) -> None:
    figures = {"labels": 40, "heldout_labels": 10, "heldout_accuracy": 0.9, "majority_share": 0.5}
    model = LabelModel.objects.create(agent=trace.agent, **figures)
    LabelProposal.objects.create(trace=trace, label_model=model, good=good, confidence=confidence)


def test_an_answer_comes_with_all_that_was_said_of_it(agent, trace):
    other = make_trace(agent, response="Another.")
    ratings = [rate(trace, 1, "alice"), rate(trace, 3, "bob", "stars")]
    outcome = write.outcome(trace, metric="returned", value=3, rater="shop", source="test").event
    pick = write.compare(trace, other, choice="left", rater="carol", source="test").event
    edits = [write.correct(trace, text=text, rater="dave", source="test").event for text in ("On Friday.", "Soon.")]
    [answer], tally = read(agent)
    assert answer.ratings == tuple((event.pk, event.value, pseudonym(event.rater)) for event in ratings)
    assert answer.outcomes == (outcome.pk,)
    assert answer.preferences == (pick.pk, edits[0].pk, edits[1].pk)
    assert answer.corrections == ("Soon.",)
    assert (answer.trace_ids, answer.response, answer.reward) == ((str(trace.pk),), trace.response, None)
    assert answer.split_key == prompt_key(trace.prompt)
    assert len(tally.ids) == 6


def test_superseded_and_retracted_events_are_not_read(agent, trace):
    rate(trace, 0)
    newest = rate(trace, 1)
    write.retract(rate(trace, 0, "bob"), rater="bob", source="test")
    [answer], _ = read(agent)
    assert answer.ratings == ((newest.pk, 1.0, pseudonym("alice")),)


def test_answers_with_a_rating_or_a_reward_are_read_and_no_others(agent):
    rewarded = make_trace(agent, "A?", reward=0.4)
    rated(agent, "B?", "Yes.", 1)
    silent = make_trace(agent, "C?")
    rate(make_trace(Agent.objects.create(name="other")), 1)
    answers, _ = read(agent)
    assert {answer.reward for answer in answers} == {None, 0.4}
    assert len(answers) == 2
    everything, _ = read(agent, everything=True)
    assert {answer.trace_ids[0] for answer in everything} > {str(rewarded.pk), str(silent.pk)}


def test_proposed_labels_are_read_where_they_are_wanted(agent, trace):
    propose(trace, True, 0.9)
    assert read(agent) == ([], Tally())
    [answer], _ = read(agent, proposals=True)
    assert answer.proposed == (True, 0.9)


def test_an_answer_comes_with_what_was_done_before_it_and_the_tools_of_the_agent(agent):
    make_trace(agent, reward=0.5, tool_calls=[{"tool_name": "search", "arguments": {"q": 1}, "result": "found"}])
    make_trace(agent, "Silent?", reward=0.5)
    by_run = {bool(answer.steps): answer for answer in read(agent)[0]}
    called, result = by_run[True].steps
    assert called["tool_calls"][0]["function"] == {"name": "search", "arguments": {"q": 1}}
    assert (result["role"], result["content"]) == ("tool", "found")
    assert by_run[True].tools == by_run[False].tools
    assert [tool["function"]["name"] for tool in by_run[True].tools] == ["search"]


def test_a_run_with_arguments_that_were_cut_is_left_out_and_counted(agent):
    make_trace(agent, reward=0.5, tool_calls=[{"tool_name": "search", "arguments": '{"q": "lon… (cut)'}])
    answers, tally = read(agent)
    assert (answers, tally.skipped) == ([], {CUT_CALLS: 1})


def test_answers_to_one_prompt_follow_each_other(agent):
    rate_prompts(agent, 5)
    keys = [answer.prompt_key for answer in read(agent)[0]]
    assert keys == sorted(keys)
    assert len(keys) == 10


@pytest.mark.parametrize("start", [0, 20])
def test_one_query_of_answers_and_one_of_tools_however_many_there_are(agent, start):
    rate_prompts(agent, 5, start)
    with CaptureQueriesContext(connection) as queries:
        read(agent, proposals=True)
    assert sum(" rl_trace" in query["sql"] or '"rl_trace"' in query["sql"] for query in queries) == 2
