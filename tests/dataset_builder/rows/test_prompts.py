import json

import pytest

from rl.base.errors import NotEnoughData, UsageError
from rl.data_formatter import read_training_rows
from rl.dataset_builder import DataOptions, FileSource, freeze, is_held_out, survey
from rl.models import prompt_key
from tests.conftest import make_trace

pytestmark = pytest.mark.django_db
ONE = DataOptions(min_samples=1, val_split=0)


def rows(frozen, name: str = "train") -> list:
    return list(read_training_rows(frozen.directory / f"{name}.jsonl", "prompts"))


def test_every_prompt_is_a_row_once_whatever_became_of_its_answers(agent, data_dir):
    for number in range(3):
        for answer in ("Yes.", "No.", ""):
            make_trace(agent, f"Question {number}?", answer)
    frozen = freeze(agent, ONE, method="prompts")
    assert sorted(row["prompt"][-1]["content"] for row in rows(frozen)) == [f"Question {n}?" for n in range(3)]
    assert {tuple(row) for row in rows(frozen)} == {("prompt", "prompt_key", "split_key", "details", "feedback")}
    assert (frozen.train_rows, frozen.feedback_count, frozen.stats["prompts"]) == (3, 0, 3)
    assert frozen.members.count() == 3


def test_the_details_with_tests_are_used_else_the_first_that_there_are(agent, data_dir):
    tests = [{"input": "1", "output": "2"}]
    for details in ({}, {"source": "a"}, {"tests": tests}):
        make_trace(agent, "Add one", "…", details=details)
    for details in ({}, {"format": "json"}):
        make_trace(agent, "Say it", "…", details=details)
    found = {row["prompt"][-1]["content"]: row["details"] for row in rows(freeze(agent, ONE, method="prompts"))}
    assert found == {"Add one": {"tests": tests}, "Say it": {"format": "json"}}


def test_one_question_under_two_keys_is_one_prompt_and_a_key_of_two_questions_is_two(agent, data_dir):
    for key, question in (("a", "Where?"), ("b", "Where?"), ("c", "When?"), ("c", "Why?")):
        make_trace(agent, question, "…", prompt_key=key)
    found = rows(freeze(agent, ONE, method="prompts"))
    assert sorted(row["prompt"][-1]["content"] for row in found) == ["When?", "Where?", "Why?"]
    assert all(row["split_key"] == prompt_key(row["prompt"]) for row in found)


def test_the_prompts_that_are_held_out_are_those_of_every_method(agent, data_dir):
    for number in range(40):
        make_trace(agent, f"Question {number}?")
    frozen = freeze(agent, DataOptions(val_split=0.5), method="prompts")
    held_out = rows(frozen, "heldout")
    assert 5 < len(held_out) < 35
    assert all(is_held_out(agent.name, row["split_key"], 0.5) for row in held_out)
    assert not any(is_held_out(agent.name, row["split_key"], 0.5) for row in rows(frozen))


def test_the_same_prompts_are_the_same_set(agent, data_dir):
    make_trace(agent, "Where?", "Here.")
    frozen = freeze(agent, ONE, method="prompts")
    make_trace(agent, "Where?", "There.")
    assert freeze(agent, ONE, method="prompts") == frozen


def test_too_few_prompts_are_counted(agent, data_dir):
    for number in range(7):
        make_trace(agent, f"Question {number}?")
    told = f"{agent.name} has 7 prompts, and 10 are needed: send or import answers to 3 more prompts"
    with pytest.raises(NotEnoughData, match=told):
        freeze(agent, DataOptions(), method="prompts")
    found = survey(agent, DataOptions(), method="prompts")
    assert (found.shortage, found.answer_lengths, found.score_mean) == (told, None, None)


def test_a_prompt_without_a_message_is_left_out_and_counted(agent, data_dir):
    make_trace(agent, "Where?")
    empty = make_trace(agent, "When?")
    type(empty).objects.filter(pk=empty.pk).update(prompt=[])
    frozen = freeze(agent, ONE, method="prompts")
    assert (frozen.train_rows, frozen.stats["skipped"]) == (1, {"prompt without words": 1})


def test_prompts_do_not_come_from_files(agent, data_dir, tmp_path):
    (tmp_path / "data.json").write_text(json.dumps([]))
    with pytest.raises(UsageError, match="bring the files in with import_traces first"):
        freeze(agent, ONE, FileSource(tmp_path / "data.json", None), method="prompts")
