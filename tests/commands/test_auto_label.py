import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from rl.collect.feedback.write import rate
from rl.management.commands.auto_label import GOES_ON
from rl.models import Agent, FollowUpLabel, LabelModel, LabelProposal
from tests.auto_labels.conversations import make_conversations
from tests.auto_labels.labelled import make_labelled, make_preferences

pytestmark = [pytest.mark.learn, pytest.mark.usefixtures("data_dir")]


@pytest.fixture
def agent(agent: Agent, tiny_base: Path) -> Agent:
    """With a base model that is there."""
    agent.base_model = str(tiny_base)
    agent.save()
    return agent


def test_it_learns_measures_and_proposes(agent: Agent, capsys) -> None:
    make_labelled(agent, 100)
    make_labelled(agent, 4, start=300, label=False)
    call_command("auto_label", agent=agent.name, threshold=0.8, json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["proposed"]["good"] == found["proposed"]["bad"] == 2
    assert found["model"]["heldout_accuracy"] == 1.0
    agent.refresh_from_db()
    assert agent.auto_label_threshold == 0.8


def test_the_tables_say_how_far_to_trust_it_and_that_nothing_is_used_yet(agent: Agent, capsys) -> None:
    make_labelled(agent, 100)
    make_preferences(agent, 20)
    call_command("auto_label", agent=agent.name, learn_only=True)
    shown = capsys.readouterr().out
    assert "right on the held-out labels" in shown
    assert "Proposals are not trained on" in shown
    assert "right on the held-out picks and edits" in shown


def test_where_all_is_labelled_nothing_is_proposed(agent: Agent, capsys) -> None:
    make_labelled(agent, 100)
    call_command("auto_label", agent=agent.name)
    shown = capsys.readouterr().out
    assert "Nothing to propose: every trace with an answer is labelled." in shown
    assert "picks and edits" not in shown


def test_a_dry_run_changes_nothing(agent: Agent, capsys) -> None:
    make_labelled(agent, 100)
    make_labelled(agent, 4, start=300, label=False)
    call_command("auto_label", agent=agent.name, threshold=0.8, dry_run=True)
    agent.refresh_from_db()
    assert (LabelModel.objects.count(), LabelProposal.objects.count(), agent.auto_label_threshold) == (0, 0, None)


def test_a_later_call_goes_on_with_the_next_and_learns_anew_when_something_was_said(agent: Agent, capsys) -> None:
    traces = make_labelled(agent, 100)
    make_labelled(agent, 4, start=300, label=False)
    call_command("auto_label", agent=agent.name, limit=3)
    assert GOES_ON not in capsys.readouterr().out
    call_command("auto_label", agent=agent.name, limit=3)
    shown = " ".join(capsys.readouterr().out.split())
    assert GOES_ON in shown
    assert (LabelModel.objects.count(), LabelProposal.objects.count()) == (1, 4)
    rate(traces[0], rater="user:bob", scale="thumb", value=1, source="test")
    call_command("auto_label", agent=agent.name, limit=3)
    assert LabelModel.objects.count() == 2
    Agent.objects.update(base_model="tiny")
    call_command("auto_label", agent=agent.name, learn_only=True)
    assert LabelModel.objects.count() == 3


@pytest.mark.parametrize(
    ("options", "code"), [({"threshold": 0.4}, 2), ({"threshold": 2.0}, 2), ({"limit": 0}, 2), ({}, 3)]
)
def test_what_cannot_be_done_is_one_line_with_its_code(agent: Agent, options: dict, code: int) -> None:
    with pytest.raises(CommandError) as error:
        call_command("auto_label", agent=agent.name, **options)
    assert error.value.returncode == code
    assert "\n" not in str(error.value)


def test_it_reads_what_users_wrote_next_and_says_that_nobody_has_looked_yet(agent: Agent, capsys) -> None:
    make_conversations(agent, 60)
    make_conversations(agent, 4, start=200, label=False)
    call_command("auto_label", agent=agent.name, follow_ups=True)
    shown = " ".join(capsys.readouterr().out.split())
    assert "told good from bad, cross-fitted" in shown
    assert "(a coin: 50%)" in shown
    assert "nothing is learned from them before 10 were looked at" in shown
    assert (FollowUpLabel.objects.count(), LabelProposal.objects.count()) == (4, 0)
    call_command("auto_label", agent=agent.name, follow_ups=True, json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["model"]["reads"] == "follow_up"
    assert found["proposed"] == {"good": 0, "bad": 0, "at_least": found["proposed"]["at_least"]}
    assert found["reviews"] == {"agreed": 0, "seen": 0, "is_informative": True, "weight": 0.0}


def test_a_threshold_is_not_for_what_users_wrote_next(agent: Agent) -> None:
    with pytest.raises(CommandError, match="--threshold is for proposals"):
        call_command("auto_label", agent=agent.name, follow_ups=True, threshold=0.9)
