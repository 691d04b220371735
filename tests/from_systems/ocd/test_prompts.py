"""Decisions of FILER and PRIORITIZER are learned with the prompts that OCD asks."""

import json
from typing import Any

import pytest

from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.read.groups import Tally
from rl.dataset_builder.read.judged import Wanted, judged_answers
from rl.dataset_builder.read.ratings import DatabaseSource
from rl.dataset_builder.rows.prompts import PromptsOnly
from rl.evaluation.preferring import prompts_asked
from rl.from_systems.ocd.prompts import FILER_SYSTEM, ask_filer, ask_prioritizer
from rl.from_systems.ocd.rows import message_row, training_row
from rl.models import Agent, Trace
from rl.scoring import stored as rewarding
from tests.dataset_builder.exporting.exports import exported
from tests.from_systems.ocd.test_exported_rows import decide

FILER_STATE: dict[str, Any] = {
    "item": {"id": "i1", "title": "Fix the door", "rawInstructions": "It does not close.", "routingNotes": None},
    "assignedOpus": {"name": "House", "opusType": "PROJECT", "content": "Doors and windows. " * 60},
    "availableOpuses": [{"name": f"Opus {number}", "opusType": "PROJECT"} for number in range(12)],
}
FILED = "Instructions: It does not close.\nRouting Notes: None\nItem Title: Fix the door\n\nAssigned Project:\n- Name: House"
ITEM = {"id": "a", "title": "Tax", "swimlane": "HOME", "priority": "HIGH", "labels": ["Job 1", "x"]}
PRIORITIZED = """Available TODO Items (1 items):

- ID: a
  Title: Tax
  Swimlane: HOME
  Priority: HIGH
  Labels: Job 1, x
  Age: Unknown


User Context:
- Current Time: Unknown
- Day of Week: Monday
- Current Focus: None

Strategic State:
- Income Goal Progress: 25.0%
- Authority Goal Progress: 0.0%

Constraints:
- WIP Count: 2
- Blocked Count: 0
- Average Cycle Time: 1.5 days"""


@pytest.fixture
def filer(db) -> Agent:
    return Agent.objects.create(name="FILER")


def test_filer_is_asked_in_ocds_lines():
    system, user = ask_filer(FILER_STATE)
    assert (system["role"], system["content"]) == ("system", FILER_SYSTEM)
    assert user["content"].startswith(FILED)
    assert user["content"].endswith("- Opus 9 (PROJECT)")
    assert 500 < len(user["content"]) < 1000
    assert ask_filer(FILER_STATE, "Mine.")[0]["content"] == "Mine."


def test_prioritizer_is_asked_in_ocds_lines():
    state = {
        "availableItems": [ITEM],
        "userContext": {"dayOfWeek": "Monday", "currentFocus": None},
        "strategicState": {"incomeGoalProgress": 0.25, "authorityGoalProgress": "much"},
        "constraints": {"wipCount": 2, "averageCycleTime": 1.5},
    }
    assert ask_prioritizer(state)[1]["content"] == PRIORITIZED


def test_prioritizer_is_asked_so_with_the_names_that_a_state_is_stored_with():
    stored = {
        "todoItems": [ITEM],
        "currentContext": {"dayOfWeek": "Monday", "currentFocus": None},
        "strategicGoals": {"incomeGoalProgress": 0.25},
        "constraints": {"wipCount": 2, "averageCycleTime": 1.5},
    }
    assert ask_prioritizer(stored)[1]["content"] == PRIORITIZED


@pytest.mark.parametrize("state", [{"title": "x"}, {"item": "x"}, {"availableItems": "x"}, {}])
def test_a_state_of_another_shape_stays_as_it_is_stored(state: dict):
    assert ask_filer(state) is None
    assert ask_prioritizer(state) is None


@pytest.mark.parametrize("wrong", [None, 3, "x", [1], {"name": {"deep": []}}])
def test_parts_of_another_shape_break_nothing(wrong: Any):
    whole = {"item": {"title": wrong}, "assignedOpus": wrong, "availableOpuses": [wrong, wrong]}
    assert ask_filer(whole)[1]["content"].startswith("Instructions: ")
    rest = {"userContext": wrong, "strategicState": wrong, "constraints": wrong}
    assert "WIP Count: 0" in ask_prioritizer({"availableItems": [wrong], **rest})[1]["content"]


def test_every_kind_of_row_asks_so_and_holds_out_what_it_held_out(filer: Agent):
    decide(filer, id="d1", state=FILER_STATE, userFeedback="CONFIRMED")
    stored = Trace.objects.get()
    assert json.loads(stored.prompt[0]["content"]) == FILER_STATE
    [answer] = judged_answers(filer, Tally(), Wanted())
    [group] = DatabaseSource(filer).groups(Tally())
    [[row]] = [rows.rows for rows in PromptsOnly(filer, DatabaseSource(filer), DataOptions(), Tally()).prompts()]
    for prompt in (answer.prompt, group.answers[0].prompt, row["prompt"]):
        assert [message["role"] for message in prompt] == ["system", "user"]
        assert prompt[1]["content"].startswith(FILED)
    assert answer.split_key == row["split_key"] == stored.prompt_key
    [asked] = prompts_asked(filer, 1.0, set(), 5) or [row]
    assert asked["prompt"][1]["content"].startswith(FILED)


def test_with_the_plain_template_rows_have_the_state(filer: Agent):
    Agent.objects.update(prompt_template="plain")
    decide(filer, id="d1", state=FILER_STATE, userFeedback="CONFIRMED")
    [answer] = judged_answers(Agent.objects.get(), Tally(), Wanted())
    assert [message["role"] for message in answer.prompt] == ["user"]
    assert json.loads(answer.prompt[0]["content"]) == FILER_STATE


def test_exports_write_what_is_asked(filer: Agent, tmp_path):
    filer.system_prompt = "File it."
    filer.save()
    decide(filer, id="d1", state=FILER_STATE, userFeedback="CONFIRMED")
    rewarding.calculate(filer)
    trace = Trace.objects.get()
    system, user, answer = message_row(trace)["messages"]
    assert (system["content"], answer["role"]) == ("File it.", "assistant")
    assert user["content"].startswith(FILED)
    assert training_row(trace)["prompt"].startswith(f"<|system|>\nFile it.\n<|user|>\n{FILED}")
    [row] = exported(filer, "decision", tmp_path)
    assert row["prompt"] == user["content"]
