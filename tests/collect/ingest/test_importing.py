import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from rl.base.errors import BadFile, Interrupted, UsageError
from rl.collect.importers import importer
from rl.collect.importers import rows as importing_rows
from rl.collect.ingest.importing import import_files
from rl.models import Agent, Feedback, Trace
from tests.collect.importers.reading import lines

DECISION = {"id": "d1", "agentType": "FILER", "state": {"item": "tax"}, "action": {"swimlane": "Home"}}


def rows(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"prompt": f"{n}?", "completion": "Yes.", "label": True} for n in range(start, start + count)]


@pytest.mark.database
def test_files_and_folders_are_read_in_the_order_of_their_names(agent, tmp_path):
    folder = tmp_path / "logs"
    (folder / "deep").mkdir(parents=True)
    lines(folder, *rows(1), name="b.jsonl")
    lines(folder / "deep", *rows(1, 1), name="a.json")
    (folder / "c.jsonl.gz").write_bytes(gzip.compress(json.dumps(rows(1, 2)[0]).encode()))
    lines(folder, "not of this format", name="notes.txt")
    lines(folder, "not of this format", name=".hidden.jsonl")
    report = import_files("trl", [folder, lines(tmp_path, *rows(1, 3), name="own.log")], agent=agent)
    assert (report.traces.imported, report.feedback.imported) == (4, 4)
    assert [trace.prompt[0]["content"] for trace in Trace.objects.order_by("created_at")] == ["0?", "2?", "1?", "3?"]


def test_links_lead_no_further_than_the_folder(agent, tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    lines(folder, *rows(1), name="a.jsonl")
    (folder / "same.jsonl").symlink_to(folder / "a.jsonl")
    (folder / "secret.jsonl").symlink_to(lines(tmp_path, *rows(1, 7), name="outside.jsonl"))
    (folder / "round").symlink_to(tmp_path)
    report = import_files("trl", [folder], agent=agent)
    assert (report.traces.imported, report.traces.unchanged) == (1, 1)


def test_a_pipe_is_refused_before_anything_is_taken_from_it(agent, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for format_name in ("trl", "toolbox_checkpoint"):
        with pytest.raises(BadFile, match="cannot be read twice"):
            import_files(format_name, [tmp_path / "pipe"], agent=agent)
    with pytest.raises(BadFile, match="cannot be read twice"):
        importer("command_center")(agent, tmp_path / "pipe", None)


def test_places_name_the_file_where_there_are_several(agent, tmp_path):
    files = [lines(tmp_path, *rows(1), "{", name=f"{name}.jsonl") for name in "ab"]
    report = import_files("trl", files, agent=agent)
    (places,) = report.traces.examples.values()
    assert places == ["a.jsonl, line 2", "b.jsonl, line 2"]


def test_a_damaged_file_leaves_the_database_as_it_was(tmp_path, db):
    good, bad = lines(tmp_path, *rows(3), name="a.jsonl"), tmp_path / "b.jsonl.gz"
    bad.write_bytes(gzip.compress(b'{"prompt": "x", "completion": "y"}')[:-9])
    with pytest.raises(BadFile, match=r"b\.jsonl\.gz"):
        import_files("trl", [good, bad], agent=Agent(name="new"))
    assert not Agent.objects.exists()


def test_a_second_run_changes_nothing_and_an_interrupted_one_is_gone_on_with(agent, tmp_path, monkeypatch):
    monkeypatch.setattr("rl.collect.ingest.importing.CHUNK", 10)
    file = lines(tmp_path, *rows(35))

    def stop(event: str, values: dict[str, Any]) -> None:
        if event == "step" and values["step"] == 20:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="after 20 of 35 records; what was stored stays"):
        import_files("trl", [file], agent=agent, report=stop)
    assert Trace.objects.count() == 20
    again = import_files("trl", [file], agent=agent)
    assert (again.traces.unchanged, again.traces.imported) == (20, 15)
    third = import_files("trl", [file], agent=agent)
    assert (third.traces.unchanged, third.feedback.unchanged) == (35, 35)


def test_a_dry_run_writes_nothing(tmp_path, db):
    report = import_files("trl", [lines(tmp_path, *rows(3))], agent=Agent(name="new"), dry_run=True)
    assert (report.traces.imported, report.feedback.imported) == (3, 3)
    assert (Agent.objects.count(), Trace.objects.count(), Feedback.objects.count()) == (0, 0, 0)


def test_records_may_name_their_agents(tmp_path, db):
    import_files("ocd_decision", [lines(tmp_path, DECISION, {**DECISION, "agentType": "STORER"})])
    assert list(Agent.objects.values_list("name", flat=True)) == ["FILER", "STORER"]


def test_somebody_must_say_whose_answers_they_are(tmp_path, db):
    with pytest.raises(UsageError, match="line 2 names no agent; say with --agent"):
        import_files("ocd_decision", [lines(tmp_path, DECISION, {**DECISION, "agentType": ""})])
    assert not Agent.objects.exists()


def test_scores_find_the_answers_that_are_here(agent, tmp_path):
    trace = {"id": "t1", "input": "Hi", "output": "Hello."}
    score = {"traceId": "t1", "name": "rating", "value": 0, "dataType": "BOOLEAN"}
    import_files("langfuse_score", [lines(tmp_path, trace)], agent=agent)
    scores = lines(tmp_path, score, {**score, "traceId": "t2"}, name="scores.jsonl")
    assert import_files("langfuse_score", [scores], agent=agent, dry_run=True).feedback.imported == 1
    report = import_files("langfuse_score", [scores], agent=agent)
    assert (report.feedback.imported, report.feedback.skipped.total()) == (1, 1)
    assert Feedback.objects.get().trace.external_id == "t1"


def test_scores_may_stand_beside_new_answers_in_a_dry_run(tmp_path, db, monkeypatch):
    monkeypatch.setattr("rl.collect.ingest.importing.CHUNK", 1)
    trace = {"id": "t1", "input": "Hi", "output": "Hello."}
    file = lines(tmp_path, trace, {"traceId": "t1", "name": "rating", "value": 0, "dataType": "BOOLEAN"})
    assert import_files("langfuse_score", [file], agent=Agent(name="new"), dry_run=True).feedback.imported == 1


@pytest.mark.parametrize(("path", "what"), [("missing", "no such file"), (".", "holds no file that ends in .jsonl")])
def test_a_path_without_files_is_a_bad_file(agent, tmp_path, path, what):
    with pytest.raises(BadFile, match=what):
        import_files("trl", [tmp_path / path], agent=agent)


def test_wrong_names_are_refused_before_anything_is_read(tmp_path, db):
    with pytest.raises(UsageError, match="unknown format 'csv'; known: command_center"):
        import_files("csv", [Path("x")])
    with pytest.raises(ValidationError):
        import_files("trl", [Path("x")], agent=Agent(name="../up"))


@pytest.mark.database
def test_a_small_file_is_read_once_and_a_large_one_twice_with_the_same_outcome(agent, tmp_path, monkeypatch):
    opened: list[str] = []
    rows_of = importing_rows.rows
    monkeypatch.setattr(importing_rows, "rows", lambda path, *more: opened.append(path.name) or rows_of(path, *more))
    outcomes = []
    for number, small in enumerate((10**9, 0)):
        monkeypatch.setattr("rl.collect.ingest.importing.SMALL", small)
        owner = Agent.objects.create(name=f"owner-{number}")
        report = import_files("trl", [lines(tmp_path, *rows(30), "{", name=f"{number}.jsonl")], agent=owner)
        stored = Trace.objects.filter(agent=owner).order_by("created_at")
        outcomes.append(
            (report.as_dict(), [*stored.values_list("external_id", "prompt", "response", "feedback__value")])
        )
    assert outcomes[0] == outcomes[1]
    assert opened == ["0.jsonl", "1.jsonl", "1.jsonl"]
