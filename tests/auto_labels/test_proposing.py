from dataclasses import replace
from types import SimpleNamespace

import pytest

from rl import auto_labels
from rl.auto_labels import proposing
from rl.collect.feedback.write import rate
from rl.models import Agent, LabelProposal, Trace
from tests.auto_labels.labelled import make_labelled

pytestmark = [pytest.mark.learn, pytest.mark.usefixtures("data_dir")]


def test_it_proposes_for_what_nobody_has_labelled(agent: Agent, learned, monkeypatch) -> None:
    monkeypatch.setattr(proposing, "CHUNK", 4)
    traces = make_labelled(agent, 10, start=200, label=False)
    proposed = auto_labels.propose(learned)
    assert (proposed.good, proposed.bad, proposed.at_least[0.5]) == (5, 5, 10)
    stored = dict(LabelProposal.objects.values_list("trace", "good"))
    assert stored == {trace.pk: number % 2 == 0 for number, trace in enumerate(traces)}
    assert not LabelProposal.objects.exclude(confidence__gte=0.5, confidence__lte=1).exists()


def test_a_second_call_goes_on_where_the_first_stopped(agent: Agent, learned) -> None:
    traces = make_labelled(agent, 6, start=200, label=False)
    assert auto_labels.propose(learned, limit=2).at_least[0.5] == 2
    assert set(LabelProposal.objects.values_list("trace", flat=True)) == {trace.pk for trace in traces[-2:]}
    assert auto_labels.propose(learned).at_least[0.5] == 4
    assert auto_labels.propose(learned).at_least[0.5] == 0


def test_a_newer_model_replaces_the_proposals_but_never_a_label(agent: Agent, learned) -> None:
    labelled, *_ = make_labelled(agent, 3, start=200, label=False)
    auto_labels.propose(learned)
    rate(labelled, rater="user:alice", scale="thumb", value=0, source="test")
    newer = auto_labels.learn(agent)
    assert auto_labels.propose(newer).at_least[0.5] == 2
    assert LabelProposal.objects.filter(label_model=newer.model).count() == 2
    assert LabelProposal.objects.count() == 3


def test_a_dry_run_judges_and_stores_nothing(agent: Agent, learned) -> None:
    make_labelled(agent, 4, start=200, label=False)
    assert auto_labels.propose(learned, dry_run=True).at_least[0.5] == 4
    assert not LabelProposal.objects.exists()


def test_an_answer_with_a_reward_waits_for_a_new_one_and_one_that_is_gone_is_left_out(agent: Agent, learned) -> None:
    rewarded, bare, gone = make_labelled(agent, 3, start=200, label=False)
    Trace.objects.update(reward_pending=False)
    Trace.objects.filter(pk=rewarded.pk).update(reward=0.5)
    read = learned.reader.features

    def delete_meanwhile(*arguments):
        gone.delete()
        return read(*arguments)

    reader = SimpleNamespace(features=delete_meanwhile)
    auto_labels.propose(replace(learned, reader=reader))
    assert set(LabelProposal.objects.values_list("trace", flat=True)) == {rewarded.pk, bare.pk}
    assert list(Trace.objects.filter(reward_pending=True)) == [rewarded]


def test_its_steps_are_those_of_all_that_waits(agent: Agent, learned, monkeypatch) -> None:
    monkeypatch.setattr(proposing, "CHUNK", 4)
    make_labelled(agent, 10, start=200, label=False)
    events: list[tuple[str, dict]] = []
    auto_labels.propose(learned, report=lambda *event: events.append(event))
    assert [name for name, _ in events][0] == "stage"
    steps = [values for name, values in events if name == "step"]
    assert [values["step"] for values in steps if values["step"] in (4, 8, 10)] == [4, 8, 10]
    assert {values["total_steps"] for values in steps} == {10}
