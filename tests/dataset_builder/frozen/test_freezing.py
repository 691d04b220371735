import hashlib
import json
from dataclasses import asdict
from pathlib import Path

import pytest

from rl.base.errors import Interrupted, NotEnoughData, TrainingFailed
from rl.collect.feedback import write
from rl.dataset_builder import DataOptions, freeze, is_held_out
from rl.dataset_builder.frozen import freezing
from rl.dataset_builder.frozen.files import read_feedback_ids
from rl.dataset_builder.rows import pairs as pair_rows_module
from rl.models import Feedback, TrainingSet
from tests.conftest import make_trace
from tests.dataset_builder.ratings import all_rows, questions, rate, rate_prompts, rated, read_rows, texts

ONE = DataOptions(min_samples=1, val_split=0)


def folders(data_dir: Path) -> list[str]:
    root = data_dir / "training_sets"
    return sorted(path.name for path in root.iterdir()) if root.exists() else []


def test_rows_are_conversations_with_their_prompt_and_feedback(agent, data_dir):
    liked, disliked = rate_prompts(agent, 1)
    frozen = freeze(agent, ONE)
    [row] = read_rows(frozen, "train")
    assert row["prompt"] == [{"role": "user", "content": "Question 0?"}]
    assert row["chosen"] == [{"role": "assistant", "content": "Answer 0 is good."}]
    assert row["rejected"] == [{"role": "assistant", "content": "Answer 0 is bad."}]
    assert row["prompt_key"] == liked.trace.prompt_key
    assert row["feedback"] == [liked.pk, disliked.pk]
    assert read_rows(frozen, "heldout") == []
    assert frozen.stats["held_out_is_empty"] is True


def test_picks_and_corrections_make_rows(agent, data_dir):
    left, right = make_trace(agent, response="Left."), make_trace(agent, response="Right.")
    write.compare(left, right, choice="right", rater="alice", source="test")
    wrong = make_trace(agent, "And when?", "Never.")
    write.correct(wrong, text="On Friday.", rater="alice", source="test")
    frozen = freeze(agent, ONE)
    assert sorted(map(texts, all_rows(frozen))) == [("On Friday.", "Never."), ("Right.", "Left.")]
    assert frozen.feedback_count == 2


def test_prompts_go_to_the_side_that_their_hash_says(agent, data_dir):
    rate_prompts(agent, 40)
    frozen = freeze(agent, DataOptions(val_split=0.3))
    for name, side in (("train", False), ("heldout", True)):
        keys = {row["prompt_key"] for row in read_rows(frozen, name)}
        assert keys
        assert all(is_held_out(agent.name, key, 0.3) is side for key in keys)
    assert frozen.train_rows + frozen.heldout_rows == 40


def test_one_question_under_two_keys_stays_on_one_side(agent, data_dir):
    for number in range(20):
        for key in ("first id", "second id"):
            for value in (0, 1):
                trace = make_trace(agent, f"Question {number}?", f"{key} {value}", prompt_key=f"{key} {number}")
                write.rate(trace, rater="alice", scale="thumb", value=value, source="test")
    frozen = freeze(agent, DataOptions(val_split=0.5))
    train, held_out = (
        {row["prompt"][0]["content"] for row in read_rows(frozen, side)} for side in ("train", "heldout")
    )
    assert len(train) + len(held_out) == 20
    assert train
    assert held_out


def test_a_prompt_that_was_held_out_once_stays_held_out(agent, data_dir):
    rate_prompts(agent, 20)
    first = freeze(agent, DataOptions())
    rate_prompts(agent, 20, start=20)
    second = freeze(agent, DataOptions())
    held_out_first = {row["prompt_key"] for row in read_rows(first, "heldout")}
    trained_second = {row["prompt_key"] for row in read_rows(second, "train")}
    trained_first = {row["prompt_key"] for row in read_rows(first, "train")}
    held_out_second = {row["prompt_key"] for row in read_rows(second, "heldout")}
    assert held_out_first
    assert not held_out_first & trained_second
    assert not trained_first & held_out_second


def digest_without_numbers(rows: list[dict]) -> bytes:
    """Of the rows with how many ratings are behind each, in the place of the database's numbers."""
    lines = (json.dumps({**row, "feedback": len(row["feedback"])}, separators=(",", ":")) + "\n" for row in rows)
    return hashlib.sha256("".join(lines).encode()).digest()


def test_the_row_counts_hash_and_manifest_tell_what_is_in_the_files(agent, data_dir):
    rate_prompts(agent, 15)
    rated(agent, "Lonely?", "Yes.", 1)
    frozen = freeze(agent, DataOptions())
    sides = [read_rows(frozen, name) for name in ("train", "heldout")]
    both = hashlib.sha256(b"".join(digest_without_numbers(rows) for rows in sides))
    assert frozen.content_hash == both.hexdigest()
    assert tuple(map(len, sides)) == (frozen.train_rows, frozen.heldout_rows)
    manifest = json.loads((frozen.directory / "manifest.json").read_text())
    assert manifest["content_hash"] == frozen.content_hash
    assert {**manifest["options"], "sessions": ()} == asdict(DataOptions())
    assert manifest["skipped"] == frozen.stats["skipped"] == {"only liked answers": 1}
    assert (manifest["ratings_read"], manifest["prompts_read"], manifest["prompts"]) == (31, 16, 15)


def test_the_feedback_count_is_what_took_part_in_rows(agent, data_dir):
    rate_prompts(agent, 10)
    rated(agent, "Lonely?", "Yes.", 1)
    assert freeze(agent, DataOptions()).feedback_count == 20


@pytest.mark.database
def test_all_feedback_that_was_read_stops_waiting(agent, data_dir):
    rate_prompts(agent, 3)
    rated(agent, "Lonely?", "Yes.", 1)
    frozen = freeze(agent, ONE)
    assert Feedback.objects.filter(agent=agent, training_set=frozen).count() == 7
    assert len(read_feedback_ids(frozen.directory)) == 7


@pytest.mark.database
def test_feedback_that_arrives_meanwhile_keeps_waiting(agent, data_dir, monkeypatch):
    rate_prompts(agent, 3)
    late: list[Feedback] = []

    def training_row(pair):
        if not late:
            late.append(rated(agent, "Late?", "Yes.", 1))
            rate(Feedback.objects.filter(agent=agent).earliest("id").trace, 0, "bob")
        return original(pair)

    original = pair_rows_module.training_row
    monkeypatch.setattr(pair_rows_module, "training_row", training_row)
    frozen = freeze(agent, ONE)
    waiting = Feedback.objects.filter(agent=agent, training_set__isnull=True)
    assert {event.rater for event in waiting} == {"alice", "bob"}
    assert waiting.count() == 2
    assert Feedback.objects.filter(training_set=frozen).count() == 6


def test_what_an_earlier_set_read_first_stays_with_it(agent, data_dir):
    rate_prompts(agent, 2)
    first = freeze(agent, ONE)
    rate_prompts(agent, 2, start=2)
    second = freeze(agent, ONE)
    assert Feedback.objects.filter(training_set=first).count() == 4
    assert Feedback.objects.filter(training_set=second).count() == 4
    assert second.feedback_count == 8


def test_the_same_feedback_gives_the_same_set(agent, data_dir):
    rate_prompts(agent, 3)
    first = freeze(agent, ONE)
    useless = rated(agent, "Lonely?", "Yes.", 1)
    second = freeze(agent, ONE)
    assert second == first
    assert TrainingSet.objects.count() == 1
    assert folders(data_dir) == [str(first.pk)]
    useless.refresh_from_db()
    assert useless.training_set == first


def test_another_method_gets_a_set_of_its_own(agent, data_dir):
    rate_prompts(agent, 3)
    assert freeze(agent, ONE) != freeze(agent, ONE, method="kto")


def test_files_that_somebody_removed_are_written_again(agent, data_dir):
    rate_prompts(agent, 3)
    first = freeze(agent, ONE)
    before = (first.directory / "train.jsonl").read_bytes()
    for path in first.directory.iterdir():
        path.unlink()
    first.directory.rmdir()
    assert freeze(agent, ONE) == first
    assert (first.directory / "train.jsonl").read_bytes() == before


@pytest.mark.database
def test_too_few_pairs_leave_nothing_behind(agent, data_dir):
    rate_prompts(agent, 3)
    with pytest.raises(NotEnoughData, match="6 ratings of 3 prompts give 3 pairs, and 10 are needed"):
        freeze(agent, DataOptions())
    assert folders(data_dir) == []
    assert not TrainingSet.objects.exists()
    assert not Feedback.objects.filter(training_set__isnull=False).exists()


def test_pairs_that_are_all_held_out_are_not_enough(agent, data_dir):
    for question in questions(agent, held_out=True)[:3]:
        rated(agent, question, "Good.", 1)
        rated(agent, question, "Bad.", 0)
    with pytest.raises(NotEnoughData, match="all 3 pairs of 3 prompts are held out"):
        freeze(agent, DataOptions(min_samples=1))
    assert folders(data_dir) == []


def test_a_run_that_is_cancelled_meanwhile_leaves_nothing_behind(agent, data_dir):
    rate_prompts(agent, 3)

    def cancel(event: str, values: dict) -> None:
        raise Interrupted("cancelled")

    with pytest.raises(Interrupted):
        freeze(agent, ONE, report=cancel)
    assert (TrainingSet.objects.count(), folders(data_dir)) == (0, [])
    assert not Feedback.objects.filter(training_set__isnull=False).exists()


def test_a_disk_that_refuses_leaves_nothing_behind(agent, data_dir, monkeypatch):
    rate_prompts(agent, 3)

    def training_row(pair):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pair_rows_module, "training_row", training_row)
    with pytest.raises(TrainingFailed, match="No space left on device"):
        freeze(agent, ONE)
    assert folders(data_dir) == []


def test_what_a_killed_process_left_is_removed_with_the_next_set(agent, data_dir):
    rate_prompts(agent, 3)
    (data_dir / "training_sets" / f".{'1' * 8}.{'1' * 32}.partial").mkdir(parents=True)
    frozen = freeze(agent, ONE)
    assert folders(data_dir) == [str(frozen.pk)]


def test_two_who_freeze_the_same_at_the_same_time_get_one_set(agent, data_dir, monkeypatch):
    rate_prompts(agent, 3)
    original = freezing._existing
    twins = []

    def existing(*arguments):
        if not twins:
            twins.append(None)
            twins[0] = freeze(agent, ONE)
            return None
        return original(*arguments)

    monkeypatch.setattr(freezing, "_existing", existing)
    assert freeze(agent, ONE) == twins[0]
    assert folders(data_dir) == [str(twins[0].pk)]
