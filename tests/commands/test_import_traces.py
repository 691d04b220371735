from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from rl.models import Agent, Feedback, Trace
from tests.collect.make_command_center import write_files


@pytest.fixture
def files(tmp_path):
    return write_files(tmp_path, questions=3)


def imported(files, *arguments: str) -> str:
    out = StringIO()
    names = ("--agent", "panel", "--data-file", str(files.entries), "--ratings-file", str(files.ratings))
    call_command("import_traces", *names, *arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


@pytest.mark.django_db
def test_it_makes_the_agent_and_prints_what_came_in(files):
    text = imported(files)
    assert Agent.objects.get().pair_type == "both"
    assert (Trace.objects.count(), Feedback.objects.count()) == (files.entry_count, files.rating_count)
    assert f"{files.rating_count}" in text


@pytest.mark.django_db
def test_it_finds_the_agent_whatever_the_case_of_its_name(files):
    Agent.objects.create(name="Panel", pair_type="widget")
    imported(files)
    assert Agent.objects.get().traces.count() == files.entry_count


@pytest.mark.django_db
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


@pytest.mark.django_db
def test_it_names_what_it_skips(files):
    ratings = json.loads(files.ratings.read_text())
    ratings["ratings"]["e99999"] = {"rating": "up"}
    files.ratings.write_text(json.dumps(ratings))
    assert "skipped 1: no entry with this id (entry e99999)" in imported(files)


@pytest.mark.django_db
def test_a_dry_run_writes_nothing(files):
    assert "nothing was written" in imported(files, "--dry-run")
    assert not Agent.objects.exists()


@pytest.mark.django_db
def test_a_broken_file_is_one_line_and_exit_code_2(files):
    files.entries.write_text('{"entries": [')
    with pytest.raises(CommandError) as caught:
        imported(files)
    assert caught.value.returncode == 2
    assert "exhaustive_data.json" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not Agent.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(("name", "value"), [("--format", "csv"), ("--agent", "../up")])
def test_a_wrong_argument_is_exit_code_2(files, name, value):
    with pytest.raises(CommandError) as caught:
        imported(files, name, value)
    assert caught.value.returncode == 2
    assert value in str(caught.value)


# --- files and folders of other formats --------------------------------------------------------------------------------


def run(*arguments: object) -> str:
    out = StringIO()
    call_command("import_traces", *map(str, arguments), stdout=out, stderr=StringIO())
    return out.getvalue()


@pytest.fixture
def chats(tmp_path):
    chat = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    path = tmp_path / "chats.jsonl"
    path.write_text(f"{json.dumps(chat)}\nnot json\n")
    return path


@pytest.mark.django_db
def test_it_imports_paths_of_a_format_and_names_bad_lines(chats):
    text = run("--format", "openai_chat", "--agent", "bot", chats)
    assert "openai_chat: imported" in text
    assert "skipped 1: is not JSON: expecting value (line 2)" in text
    assert Agent.objects.get().pair_type == "preference"
    again = json.loads(run("--format", "openai_chat", "--agent", "bot", chats.parent, "--json"))
    assert (again["traces"]["imported"], again["traces"]["unchanged"]) == (0, 1)


@pytest.mark.django_db
def test_records_that_name_their_agent_need_no_other(tmp_path):
    path = tmp_path / "decisions.json"
    path.write_text(json.dumps([{"id": "d1", "agentType": "FILER", "state": {}, "action": {"swimlane": "Home"}}]))
    assert "ocd_decision: imported" in run("--format", "ocd_decision", path)
    assert Agent.objects.get().name == "FILER"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--format", "openai_chat", "--agent", "bot"], "name the files or folders"),
        (["--format", "openai_chat", "chats.jsonl"], "line 1 names no agent; say with --agent"),
        (["--format", "openai_chat", "--agent", "bot", "--data-file", "x"], "belong to command_center"),
        (["--format", "openai_chat", "--agent", "bot", "missing.jsonl"], "no such file"),
        (["--format", "n3", "--agent", "bot", "chats.jsonl"], "nothing in it could be read: prompt is missing"),
        (["--agent", "bot", "chats.jsonl"], "for other files say their --format: .*openai_chat"),
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
