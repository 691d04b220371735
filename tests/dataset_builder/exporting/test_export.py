"""Which rows are exported, and the file that holds them."""

import os

import pytest

from rl.base.errors import NotEnoughData, UsageError
from rl.dataset_builder.exporting.export import file_format
from rl.models import Feedback
from tests.conftest import make_trace
from tests.dataset_builder.exporting.exports import exported, write
from tests.dataset_builder.ratings import questions, rate, rate_prompts, rated


def test_held_out_prompts_stay_out_of_what_is_trained_on(agent, tmp_path):
    for held_out in (True, False):
        for question in questions(agent, held_out=held_out)[:3]:
            rated(agent, question, "Yes.", 1)
    train, heldout, both = (
        {row["prompt"][0]["content"] for row in exported(agent, "kto", tmp_path, split=split)}
        for split in ("train", "heldout", "all")
    )
    assert heldout == set(questions(agent, held_out=True)[:3])
    assert train == set(questions(agent, held_out=False)[:3])
    assert both == train | heldout
    assert write(agent, "kto", tmp_path / "a.jsonl", split="train").other_side == 3


def test_a_limit_takes_the_first_rows(agent, tmp_path):
    rate_prompts(agent, 5)
    everything = exported(agent, "kto", tmp_path)
    assert exported(agent, "kto", tmp_path, limit=3) == everything[:3]


def test_answers_below_the_least_reward_are_left_out(agent, tmp_path):
    for number, value in enumerate((0.2, 0.6, None)):
        make_trace(agent, f"{number}?", f"{number}", reward=value)
    for name in ("kto", "reward", "trl", "openai"):
        done = write(agent, name, tmp_path / "rows.jsonl", min_reward=0.6)
        assert done.rows == 1
        assert done.skipped["reward below the least one asked for"] >= 1


def test_only_answers_that_somebody_judged(agent, tmp_path):
    rate(make_trace(agent, "A?", "Yes.", reward=0.9), 1)
    make_trace(agent, "B?", "No.", reward=0.9)
    for name in ("kto", "reward", "sharegpt"):
        assert len(exported(agent, name, tmp_path, require_feedback=True)) == 1


def test_pairs_know_no_least_reward(agent, tmp_path):
    rate_prompts(agent, 1)
    with pytest.raises(UsageError, match="--min-reward is about single answers"):
        exported(agent, "dpo", tmp_path, min_reward=0.5)


def test_an_export_leaves_feedback_waiting(agent, tmp_path):
    rate_prompts(agent, 2)
    for name in ("dpo", "kto"):
        exported(agent, name, tmp_path)
    assert not Feedback.objects.filter(training_set__isnull=False).exists()


def test_nothing_to_export_writes_no_file_and_says_why(agent, tmp_path):
    make_trace(agent, reward=0.4)
    with pytest.raises(NotEnoughData) as caught:
        exported(agent, "grpo", tmp_path)
    assert str(caught.value) == (
        "no answer of support-chat gives a row of format grpo. left out: 1 only one answer with a reward"
    )
    [question] = questions(agent, held_out=True)[:1]
    rated(agent, question, "Yes.", 1)
    with pytest.raises(NotEnoughData, match="for --split train, 1 row for the other side"):
        exported(agent, "kto", tmp_path / "new", split="train", require_feedback=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_file_that_breaks_off_leaves_the_older_one(agent, tmp_path, suffix, monkeypatch):
    rate_prompts(agent, 3)
    path = tmp_path / f"rows.{suffix}"
    write(agent, "kto", path)
    before = path.read_bytes()
    read = []

    def labelled_row(*arguments):
        read.append(arguments)
        if len(read) == 4:
            raise OSError(28, "No space left on device")
        return original(*arguments)

    from rl.dataset_builder.rows import judged as judged_rows

    original = judged_rows.labelled_row
    monkeypatch.setattr(judged_rows, "labelled_row", labelled_row)
    with pytest.raises(UsageError, match=f"rows.{suffix} cannot be written: No space left on device"):
        write(agent, "kto", path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_device_is_not_replaced_by_a_file(agent, tmp_path):
    rate_prompts(agent, 1)
    os.mkfifo(tmp_path / "pipe")
    for suffix in ("jsonl", "parquet"):
        (tmp_path / f"rows.{suffix}").symlink_to(tmp_path / "pipe")
        with pytest.raises(UsageError, match="is not a file"):
            write(agent, "kto", tmp_path / f"rows.{suffix}")
    assert (tmp_path / "pipe").is_fifo()


def test_folders_on_the_way_are_made_and_a_folder_is_no_file(agent, tmp_path):
    rate_prompts(agent, 1)
    write(agent, "kto", tmp_path / "new" / "rows.jsonl")
    with pytest.raises(UsageError, match="is a folder; name a file in it"):
        write(agent, "kto", tmp_path / "new")


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [("a.JSONL", None, "jsonl"), ("a.parquet", None, "parquet"), ("a", "parquet", "parquet")],
)
def test_the_suffix_says_which_file_it_is(tmp_path, name, given, wanted):
    assert file_format(tmp_path / name, given) == wanted


def test_another_suffix_is_refused(tmp_path):
    with pytest.raises(UsageError, match="name the file .jsonl or .parquet"):
        file_format(tmp_path / "rows.csv", None)


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"split": "half"}, {"min_reward": 1.5}])
def test_values_out_of_range_are_refused(agent, tmp_path, wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        exported(agent, "kto", tmp_path, **wrong)
