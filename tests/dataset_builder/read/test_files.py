import json
import time
from collections import Counter

import pytest

from rl.base.errors import BadFile, NotEnoughData, UsageError
from rl.collect.importers import importer
from rl.dataset_builder import DataOptions, FileSource, freeze, prepare_training_dataset, survey
from rl.dataset_builder.read.groups import Tally
from rl.models import Agent, Feedback, Trace
from tests.collect.make_command_center import write_files
from tests.dataset_builder.ratings import all_rows, texts

BOTH = DataOptions(pair_type="both")


@pytest.fixture
def files(tmp_path):
    return write_files(tmp_path, questions=12)


@pytest.fixture
def panel(db) -> Agent:
    return Agent.objects.create(name="panel", pair_type="both")


@pytest.mark.parametrize("pair_type", ["widget", "fixture", "both"])
def test_files_give_the_same_rows_as_the_database_they_were_imported_into(panel, files, data_dir, pair_type):
    options = DataOptions(pair_type=pair_type)
    from_files = freeze(panel, options, FileSource(files.entries, files.ratings))
    importer("command_center")(panel, files.entries, files.ratings)
    from_database = freeze(panel, options)
    plain = [{**row, "feedback": []} for row in all_rows(from_database)]
    assert all_rows(from_files) == plain
    assert from_files.feedback_count == from_database.feedback_count > 0
    assert (from_files.source, from_database.source) == ("file", "db")


def test_files_are_not_imported(panel, files, data_dir):
    freeze(panel, BOTH, FileSource(files.entries, files.ratings))
    assert not Trace.objects.exists()
    assert not Feedback.objects.exists()


def test_a_survey_of_files_counts_the_same(panel, files, data_dir):
    found = survey(panel, BOTH, FileSource(files.entries, files.ratings))
    frozen = freeze(panel, BOTH, FileSource(files.entries, files.ratings))
    assert (found.train_rows, found.heldout_rows) == (frozen.train_rows, frozen.heldout_rows)
    assert found.ratings_read == files.rating_count


def test_ratings_inside_the_entries_count_where_the_ratings_file_has_none(panel, files, data_dir, tmp_path):
    document = json.loads(files.entries.read_text())
    ratings = json.loads(files.ratings.read_text())["ratings"]
    outside = {entry_id: rating for entry_id, rating in ratings.items() if entry_id < "e00100"}
    for entry in document["entries"]:
        if entry["entry_id"] in ratings:
            up = ratings[entry["entry_id"]]["rating"] == "up"
            wrong = entry["entry_id"] in outside
            entry["rating"] = "up" if up != wrong else "down"
    (tmp_path / "entries.json").write_text(json.dumps(document))
    (tmp_path / "some.json").write_text(json.dumps(outside))
    split = freeze(panel, BOTH, FileSource(tmp_path / "entries.json", tmp_path / "some.json"))
    assert split == freeze(panel, BOTH, FileSource(files.entries, files.ratings))


def test_damaged_records_and_unknown_entries_are_counted(panel, files, data_dir):
    document = json.loads(files.entries.read_text())
    document["entries"][0]["size"] = "huge"
    files.entries.write_text(json.dumps(document))
    ratings = json.loads(files.ratings.read_text())
    ratings["ratings"] |= {"e99999": {"rating": "up"}, "e00002": {"rating": "sideways"}}
    files.ratings.write_text(json.dumps(ratings))
    frozen = freeze(panel, BOTH, FileSource(files.entries, files.ratings))
    skipped = Counter(frozen.stats["skipped"])
    assert skipped["damaged entry"] == skipped["damaged rating"] == 1
    assert skipped["rating of an entry that is not in the file"] in (1, 2)


def test_a_damaged_file_leaves_nothing_behind(panel, files, data_dir):
    files.entries.write_text(files.entries.read_text()[:-500])
    with pytest.raises(BadFile, match=r"exhaustive_data\.json"):
        freeze(panel, BOTH, FileSource(files.entries, files.ratings))
    assert list((data_dir / "training_sets").iterdir()) == []


def test_widget_options_find_no_pairs_in_other_answers(agent, data_dir):
    from tests.dataset_builder.ratings import rate_prompts

    rate_prompts(agent, 3)
    found = survey(agent, BOTH)
    assert found.skipped["no widget choice"] == 12
    with pytest.raises(NotEnoughData, match="no widget choice"):
        freeze(agent, BOTH)


def test_the_command_center_way_makes_the_agent(db, files, data_dir):
    prepared = prepare_training_dataset(
        source="file",
        data_path=files.entries,
        ratings_path=files.ratings,
        pair_type="both",
        min_samples=5,
        val_split=0.1,
    )
    assert prepared.agent.name == "command-center"
    assert prepared.agent.pair_type == "both"
    assert prepared.train_rows == len(list(map(texts, all_rows(prepared)))) - prepared.heldout_rows


def test_the_command_center_way_reads_the_database(panel, files, data_dir):
    importer("command_center")(panel, files.entries, files.ratings)
    assert prepare_training_dataset(agent="Panel") == freeze(panel, BOTH)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"source": "s3"}, "source must be one of db, file"),
        ({"source": "file"}, "needs data_path"),
        ({"agent": "nobody"}, "no agent is named 'nobody'"),
    ],
)
def test_wrong_arguments_are_refused(db, wrong, message):
    with pytest.raises(UsageError, match=message):
        prepare_training_dataset(**wrong)


def test_the_time_grows_with_the_questions_and_not_with_their_square(tmp_path, monkeypatch):
    many = {f"question {number}": [] for number in range(30_000)}
    monkeypatch.setattr(FileSource, "_answers", lambda self, rated, tally: dict(many))
    before = time.process_time()
    groups = list(FileSource(tmp_path / "entries.json").groups(Tally()))
    assert time.process_time() - before < 20  # their square is minutes
    assert [group.prompt_key for group in groups] == sorted(many)
