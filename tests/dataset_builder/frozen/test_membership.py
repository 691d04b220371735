import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rl.collect.feedback.write import compare, correct
from rl.collect.importers import importer
from rl.dataset_builder import DataOptions, FileSource, freeze
from rl.dataset_builder.frozen.freezing import Members, enroll
from rl.models import Agent, TrainingSetTrace
from tests.collect.make_command_center import write_files
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate, rate_prompts, rated

ONE = DataOptions(min_samples=1, val_split=0)


def members(frozen) -> set:
    return {row.trace for row in TrainingSetTrace.objects.filter(training_set=frozen).select_related("trace")}


def test_the_answers_of_pairs_are_members_and_no_others(agent, data_dir):
    paired = {event.trace for event in rate_prompts(agent, 3)}
    rated(agent, "Lonely?", "Yes.", 1)
    assert members(freeze(agent, ONE)) == paired


def test_both_sides_of_a_pick_and_an_answer_that_was_edited_are_members(agent, data_dir):
    left, right = make_trace(agent, response="Left."), make_trace(agent, response="Right.")
    compare(left, right, choice="right", rater="alice", source="test")
    wrong = make_trace(agent, "And when?", "Never.")
    correct(wrong, text="On Friday.", rater="alice", source="test")
    assert members(freeze(agent, ONE)) == {left, right, wrong}


def test_answers_in_the_same_words_are_all_members(agent, data_dir):
    [good, bad] = rate_prompts(agent, 1)
    again = make_trace(agent, "Question 0?", f" {good.trace.response}\n")
    rate(again, 1)
    assert members(freeze(agent, ONE)) == {good.trace, bad.trace, again}


@pytest.mark.database
def test_answers_that_chose_the_widgets_of_a_pair_are_members(db, data_dir, tmp_path):
    panel = Agent.objects.create(name="panel", pair_type="both")
    files = write_files(tmp_path, questions=4)
    importer("command_center")(panel, files.entries, files.ratings)
    frozen = freeze(panel, DataOptions(pair_type="widget", min_samples=1))
    assert members(frozen) <= set(panel.traces.filter(feedback__isnull=False))
    assert frozen.members.count() > frozen.train_rows
    unstored = DataOptions(pair_type="fixture", min_samples=1)
    assert not freeze(panel, unstored, FileSource(files.entries, files.ratings)).members.exists()


def test_freezing_again_adds_nobody_twice(agent, data_dir):
    rate_prompts(agent, 3)
    frozen = freeze(agent, ONE)
    freeze(agent, ONE)
    assert frozen.members.count() == 6


@pytest.mark.parametrize("method", ["dpo", "kto", "grpo", "reward"])
def test_every_method_has_members(agent, data_dir, method):
    for event in rate_prompts(agent, 2):
        event.trace.reward = event.value
        event.trace.save()
    assert freeze(agent, ONE, method=method).members.count() == 4


def test_members_are_written_in_short_transactions(agent, data_dir, monkeypatch):
    monkeypatch.setattr("rl.dataset_builder.frozen.freezing.CHUNK", 2)
    rate_prompts(agent, 1)
    frozen = freeze(agent, ONE)
    found = Members()
    found.add(str(make_trace(agent, f"{number}?").pk) for number in range(5))
    with CaptureQueriesContext(connection) as queries:
        enroll(frozen, found)
    assert sum(query["sql"].startswith("INSERT") for query in queries) == 3
    assert frozen.members.count() == 7


def test_an_id_takes_sixteen_bytes():
    found = Members()
    ids = [uuid.uuid4() for _ in range(5)]
    found.add(map(str, ids))
    assert len(found) == 5
    assert {uuid.UUID(one) for chunk in found.chunks() for one in chunk} == set(ids)
