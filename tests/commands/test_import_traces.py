import json
from functools import partial
from pathlib import Path

import pytest
from django.core.management import CommandError

from rl.collect.ingest import importing
from rl.models import Agent, Feedback, Trace
from rl.runs import preview
from tests.collect.make_command_center import write_files
from tests.commands.printing import printed

pytestmark = pytest.mark.django_db
run = partial(printed, "import_traces")


@pytest.fixture
def files(tmp_path):
    return write_files(tmp_path, questions=3)


def imported(files, *arguments: str) -> str:
    return run("--agent", "panel", "--data-file", files.entries, "--ratings-file", files.ratings, *arguments)


def test_it_makes_the_agent_and_prints_what_came_in(files):
    text = imported(files)
    assert Agent.objects.get().pair_type == "both"
    assert (Trace.objects.count(), Feedback.objects.count()) == (files.entry_count, files.rating_count)
    assert f"{files.rating_count}" in text


def test_it_finds_the_agent_whatever_the_case_of_its_name(files):
    Agent.objects.create(name="Panel", pair_type="widget")
    imported(files)
    assert Agent.objects.get().traces.count() == files.entry_count


def test_it_answers_with_one_document(files):
    document = json.loads(imported(files, "--json"))
    assert document["traces"]["imported"] == files.entry_count
    assert document["feedback"] == {
        "read": files.rating_count,
        "imported": files.rating_count,
        "updated": 0,
        "unchanged": 0,
        "skipped": [],
    }


def test_it_says_what_became_of_each_field_of_the_entries(files):
    entries = json.loads(files.entries.read_text())
    entries["entries"][0]["mood"] = "blue"
    files.entries.write_text(json.dumps(entries))
    columns = {row["column"]: row["became"] for row in json.loads(imported(files, "--json"))["columns"]}
    assert columns["question"] == {"read as the question": files.entry_count}
    assert columns["pipeline_meta"] == {"kept in the details": files.entry_count}
    assert columns["mood"] == {"not read": 1}


def test_it_names_what_it_skips(files):
    ratings = json.loads(files.ratings.read_text())
    ratings["ratings"]["e99999"] = {"rating": "up"}
    files.ratings.write_text(json.dumps(ratings))
    assert "skipped 1: no entry with this id (entry e99999)" in imported(files)


def test_a_dry_run_writes_nothing(files):
    assert "nothing was written" in imported(files, "--dry-run")
    assert not Agent.objects.exists()


def test_a_broken_file_is_one_line_and_exit_code_2(files):
    files.entries.write_text('{"entries": [')
    with pytest.raises(CommandError) as caught:
        imported(files)
    assert caught.value.returncode == 2
    assert "exhaustive_data.json" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not Agent.objects.exists()


@pytest.mark.parametrize(("name", "value"), [("--format", "csv"), ("--agent", "../up")])
def test_a_wrong_argument_is_exit_code_2(files, name, value):
    with pytest.raises(CommandError) as caught:
        imported(files, name, value)
    assert caught.value.returncode == 2
    assert value in str(caught.value)


# --- files and folders of other formats --------------------------------------------------------------------------------


@pytest.fixture
def chats(tmp_path):
    chat = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    path = tmp_path / "chats.jsonl"
    path.write_text(f"{json.dumps(chat)}\nnot json\n")
    return path


def test_it_imports_paths_of_a_format_and_names_bad_lines(chats):
    text = run("--format", "openai_chat", "--agent", "bot", chats)
    assert "openai_chat: imported" in text
    assert "skipped 1: is not JSON: expecting value (line 2)" in text
    assert Agent.objects.get().pair_type == "preference"
    again = json.loads(run("--format", "openai_chat", "--agent", "bot", chats.parent, "--json"))
    assert (again["traces"]["imported"], again["traces"]["unchanged"]) == (0, 1)


@pytest.fixture
def labelled(tmp_path):
    rows = [{"prompt": f"Question {n}?", "completion": "Yes.", "label": n % 2 == 0, "hard": n} for n in range(4)]
    path = tmp_path / "labelled.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_it_ends_with_what_became_of_each_column(labelled):
    text = run("--format", "trl", "--agent", "bot", labelled)
    assert all(row in text for row in ("read as the question", "read as a thumb", "kept in the details", "4 of 4"))
    document = json.loads(run("--format", "trl", "--agent", "bot", labelled, "--json"))
    assert {"column": "label", "became": {"read as a thumb": 4}} in document["columns"]


def test_a_file_of_which_the_labels_are_not_read_is_refused_unless_that_is_wanted(labelled, monkeypatch):
    labelled.write_text(labelled.read_text().replace('"label"', '"rating"'))
    for small in (2**20, 0):  # kept in memory, and read again
        monkeypatch.setattr(importing, "SMALL", small)
        with pytest.raises(
            CommandError, match="column 'rating' looks like an opinion, .* in 4 of 4 .*--allow-unread"
        ) as caught:
            run("--format", "trl", "--agent", "bot", labelled)
        assert caught.value.returncode == 2
        assert not Trace.objects.exists()
    run("--format", "trl", "--agent", "bot", labelled, "--allow-unread")
    assert set(Trace.objects.values_list("details__rating", flat=True)) == {True, False}


def test_the_file_that_is_refused_is_named_among_others(labelled):
    (labelled.parent / "a.jsonl").write_text(labelled.read_text())
    labelled.write_text(labelled.read_text().replace('"label"', '"liked"'))
    with pytest.raises(CommandError, match="labelled.jsonl: the column 'liked'"):
        run("--format", "trl", "--agent", "bot", labelled.parent)


def test_a_scale_is_told_where_the_file_cannot_tell_it(tmp_path):
    trace = {"id": "t1", "timestamp": "2026-02-01T12:00:00Z", "input": "Hi", "output": "Hello."}
    score = {"traceId": "t1", "name": "user-rating", "value": 1, "dataType": "NUMERIC", "source": "API"}
    path = tmp_path / "all.jsonl"
    path.write_text(f"{json.dumps(trace)}\n{json.dumps(score)}\n")
    names = ("--format", "langfuse_score", "--agent", "bot", path)
    with pytest.raises(CommandError, match="say --scale 'user-rating'=0..1 or"):
        run(*names)
    run(*names, "--scale", "user-rating=1..5")
    assert Feedback.objects.get().value == 0


def test_records_that_name_their_agent_need_no_other(tmp_path):
    path = tmp_path / "decisions.json"
    path.write_text(json.dumps([{"id": "d1", "agentType": "FILER", "state": {}, "action": {"swimlane": "Home"}}]))
    assert "ocd_decision: imported" in run("--format", "ocd_decision", path)
    assert Agent.objects.get().name == "FILER"


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--format", "openai_chat", "--agent", "bot"], "name the files or folders"),
        (["--format", "openai_chat", "chats.jsonl"], "line 1 names no agent; say with --agent"),
        (["--format", "openai_chat", "--agent", "bot", "--data-file", "x"], "belong to command_center"),
        (["--format", "openai_chat", "--agent", "bot", "missing.jsonl"], "no such file"),
        (["--format", "n3", "--agent", "bot", "chats.jsonl"], "nothing in it could be read: prompt is missing"),
        (["--agent", "bot", "chats.jsonl"], "for other files say their --format: .*openai_chat"),
        (["--format", "openai_chat", "--agent", "bot", "chats.jsonl", "--scale", "1..5"], "openai_chat has none"),
        (["--format", "langfuse_score", "--agent", "bot", "chats.jsonl", "--scale", "5"], "--scale must be LOW..HIGH"),
        (["--data-file", "x"], "command_center takes --agent NAME --data-file FILE"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_code_2(chats, monkeypatch, arguments, what):
    monkeypatch.chdir(chats.parent)
    with pytest.raises(CommandError, match=what) as caught:
        run(*arguments)
    assert caught.value.returncode == 2
    assert "\n" not in str(caught.value)
    assert not Agent.objects.exists()


def rated_chat(tmp_path: Path, answer: str) -> Path:
    chats = tmp_path / "chats.jsonl"
    asked = [{"role": "user", "content": "Where is it?"}]
    row = {"messages": [*asked, {"role": "assistant", "content": answer}], "label": False}
    chats.write_text(json.dumps(row) + "\n")
    return chats


def test_it_ends_with_the_first_row_as_it_would_be_trained(tmp_path):
    path = rated_chat(tmp_path, "Here.\x1b[2J")
    Agent.objects.create(name="panel", base_model="nobody/not-here")
    for dry in ((), ("--dry-run",)):
        *_, row, answer, where = run("--format", "openai_chat", "--agent", "panel", path, *dry).splitlines()
        facts = "weight 1.0, label_source person, ratings 1"
        assert row == f"as it would be trained: line 1, row 1 ({facts}): user: Where is it?"
        assert answer == "  rejected: [Here.\\x1b[2J]"
        assert "the base model is not on this machine" in where
    [row] = json.loads(run("--format", "openai_chat", "--agent", "panel", path, "--json"))["learns"]["rows"]
    assert row["answers"][0]["pieces"] == [["Here.\x1b[2J", True]]


def test_files_of_an_own_kind_end_with_the_agents_first_row(files):
    assert any(line.startswith("as it would be trained: panel, row 1") for line in imported(files).splitlines())
    assert "as it would be" not in run("--agent", "other", "--data-file", files.entries, "--dry-run")


@pytest.mark.process
def test_a_tokenizer_that_cannot_be_read_takes_nothing_back(tmp_path, monkeypatch):
    (tmp_path / "tokenizer.json").write_text("{")
    monkeypatch.setattr(preview, "local_folder", lambda base: tmp_path)
    document = json.loads(run("--format", "openai_chat", "--agent", "panel", rated_chat(tmp_path, "Here."), "--json"))
    assert document["learns"]["rows"] == []
    assert Trace.objects.get().response == "Here."


@pytest.mark.learn
def test_the_first_row_has_the_base_models_tokens_where_it_is_here(tmp_path, tiny_base):
    Agent.objects.create(name="panel", base_model=str(tiny_base))
    text = run("--format", "openai_chat", "--agent", "panel", rated_chat(tmp_path, "Here."), "--dry-run")
    assert "<|im_start|>user\nWhere is it?<|im_end|>\n<|im_start|>assistant\n" in text
    assert "[<|im_end|>]" in text
