from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rl.base.errors import BadFile, UsageError
from rl.collect.feedback.imported_feedback import OLDER
from rl.collect.feedback.write import retract
from rl.collect.importers import IMPORTERS, command_center, importer
from rl.collect.importers.command_center import NO_ENTRY, OTHER_QUESTION, RATED_TWICE, run
from rl.collect.importers.report import EXAMPLES, OTHER, REASONS, ImportCount
from rl.collect.traces.rows import OTHER_ANSWER, TraceRows
from rl.models import Agent, Feedback, Trace
from tests.collect.make_command_center import write_files
from tests.conftest import make_trace


@pytest.fixture
def panel(db) -> Agent:
    return Agent.objects.create(name="panel", pair_type="both")


def entry(entry_id: str = "e1", **fields: Any) -> dict[str, Any]:
    values = {
        "entry_id": entry_id,
        "question_id": "q1",
        "question": "How warm is it?",
        "category": "status",
        "scenario": "kpi",
        "fixture": "kpi_live",
        "size": "hero",
        "natural": True,
        "forced": False,
        "pipeline_selected_fixture": None,
        "widget_index": 0,
        "data_override": {"demoData": {"unit": "°C"}},
        "layout_context": {},
        "pipeline_meta": {"intent": {"domains": ["industrial"]}},
        "rating": None,
    }
    return {**values, **fields}


def up(**fields: Any) -> dict[str, Any]:
    return {"rating": "up", "tags": ["good"], "notes": "", "rated_at": "2026-02-02T10:00:00Z", **fields}


class Files:
    """A pair of files that a test writes, and imports."""

    def __init__(self, folder: Path) -> None:
        self.entries, self.ratings = folder / "exhaustive_data.json", folder / "ratings.json"

    def write(self, *entries: dict[str, Any], ratings: dict[str, Any] | None = None) -> Files:
        run_of = {"run_id": "run-1", "created_at": "2026-02-01T12:46:57.957462"}
        self.entries.write_text(json.dumps({**run_of, "entries": entries}))
        self.ratings.write_text(json.dumps(ratings or {}))
        return self

    def load(self, agent: Agent, **options: Any) -> Any:
        return run(agent, self.entries, self.ratings, **options)


@pytest.fixture
def files(tmp_path) -> Files:
    return Files(tmp_path)


def test_an_entry_becomes_a_trace_that_a_person_can_judge(panel, files):
    files.write(entry()).load(panel)
    trace = Trace.objects.get()
    assert (trace.external_id, trace.prompt_key, trace.source) == ("e1", "q1", "command_center")
    assert trace.prompt == [{"role": "user", "content": "How warm is it?"}]
    assert trace.response == "kpi (hero): kpi_live"
    assert trace.occurred_at == datetime(2026, 2, 1, 12, 46, 57, 957462, tzinfo=UTC)
    assert trace.details["data_override"] == {"demoData": {"unit": "°C"}}
    assert trace.details["run_id"] == "run-1"


@pytest.mark.database
def test_a_rating_becomes_feedback(panel, files):
    files.write(entry("e1"), entry("e2", fixture="x"), ratings={"e1": up(notes="Clear."), "e2": up(rating="down")})
    files.load(panel)
    liked, disliked = Feedback.objects.order_by("trace__external_id")
    assert (liked.value, liked.tags, liked.notes) == (1.0, ["good"], "Clear.")
    assert (liked.kind, liked.scale, liked.source, liked.rater) == (
        "rating",
        "thumb",
        "command_center",
        "device:command-center",
    )
    assert liked.rated_at == datetime(2026, 2, 2, 10, tzinfo=UTC)
    assert disliked.value == 0.0


def test_the_device_that_rated_is_the_rater(panel, files):
    files.write(entry(), ratings={"ratings": {"e1": up()}, "device_id": "tablet-7"}).load(panel)
    assert Feedback.objects.get().rater == "device:tablet-7"


def test_a_rating_without_a_time_is_as_old_as_its_answer(panel, files):
    files.write(entry(), ratings={"e1": up(rated_at=None)}).load(panel)
    assert Feedback.objects.get().rated_at == Trace.objects.get().occurred_at


@pytest.mark.database
def test_a_rating_inside_an_entry_counts_where_the_file_has_none(panel, files):
    files.write(entry("e1", rating="up"), entry("e2", fixture="x", rating="up"), ratings={"e2": up(rating="down")})
    report = files.load(panel)
    assert list(Feedback.objects.order_by("trace__external_id").values_list("value", flat=True)) == [1.0, 0.0]
    assert report.feedback.imported == report.feedback.read == 2


def test_a_second_run_changes_nothing(panel, tmp_path):
    made = write_files(tmp_path, questions=6)
    first = run(panel, made.entries, made.ratings)
    assert (first.traces.imported, first.feedback.imported) == (made.entry_count, made.rating_count)
    before = list(Feedback.objects.order_by("id").values()), list(Trace.objects.order_by("id").values())
    second = run(panel, made.entries, made.ratings)
    assert (second.traces.unchanged, second.feedback.unchanged) == (second.traces.read, second.feedback.read)
    assert (second.traces.read, second.feedback.read) == (made.entry_count, made.rating_count)
    assert (list(Feedback.objects.order_by("id").values()), list(Trace.objects.order_by("id").values())) == before


def test_numbers_that_a_database_writes_differently_are_no_change(panel, files):
    files.write(entry(data_override={"demoData": {"a": 1e23, "b": 1.0, "c": -0.0}})).load(panel)
    assert files.load(panel).traces.unchanged == 1


@pytest.mark.database
def test_a_later_rating_supersedes(panel, files):
    files.write(entry(), ratings={"e1": up()}).load(panel)
    report = files.write(entry(), ratings={"e1": up(rating="down", rated_at="2026-02-03T10:00:00Z")}).load(panel)
    assert (report.traces.unchanged, report.feedback.imported, report.feedback.updated) == (1, 0, 1)
    assert list(Feedback.objects.order_by("id").values_list("value", "is_current")) == [(1.0, False), (0.0, True)]


def test_an_earlier_rating_does_not_come_back(panel, files):
    files.write(entry(), ratings={"e1": up(rating="down", rated_at="2026-02-03T10:00:00Z")}).load(panel)
    report = files.write(entry(), ratings={"e1": up()}).load(panel)
    assert report.feedback.skipped == {OLDER: 1}
    assert report.feedback.examples == {OLDER: ["entry e1"]}
    assert Feedback.objects.get().value == 0.0


def test_a_withdrawn_rating_stays_withdrawn(panel, files):
    files.write(entry(), ratings={"e1": up(rated_at=None)}).load(panel)
    retract(Feedback.objects.get(), rater="bob", source="test")
    again = files.load(panel)
    assert again.traces.imported == again.feedback.imported == 0
    assert not Feedback.objects.filter(is_current=True).exists()


def test_what_an_entry_says_beside_its_answer_is_updated(panel, files):
    files.write(entry()).load(panel)
    report = files.write(entry(category="history")).load(panel)
    assert (report.traces.imported, report.traces.updated) == (0, 1)
    assert Trace.objects.get().details["category"] == "history"


def test_what_an_entry_no_longer_says_is_gone(panel, files):
    files.write(entry()).load(panel)
    files.write(entry(data_override={"demoData": {"unit": "K"}}, layout_context={"heading": "Now"})).load(panel)
    files.write(entry(data_override={"other": 1}, layout_context={})).load(panel)
    details = Trace.objects.get().details
    assert (details["data_override"], details["layout_context"]) == ({"other": 1}, {})


def test_an_answer_that_somebody_else_stores_meanwhile_is_not_overwritten(panel, files, monkeypatch):
    make_trace(panel, external_id="e1", details={"by": "others"})
    look = TraceRows.__init__

    def look_too_early(rows: TraceRows, *_: object) -> None:
        monkeypatch.setattr(TraceRows, "__init__", look)
        look(rows, [])

    monkeypatch.setattr(TraceRows, "__init__", look_too_early)
    report = files.write(entry(), ratings={"e1": up()}).load(panel)
    assert (report.traces.imported, report.traces.skipped) == (0, {OTHER_ANSWER: 1})
    assert Trace.objects.get().details == {"by": "others"}


def test_another_run_does_not_overwrite_answers_that_have_the_same_ids(panel, files):
    files.write(entry(), ratings={"e1": up()}).load(panel)
    other = entry("e1", fixture="other", question_id="q9", question="Else?")
    report = files.write(other, ratings={"e1": up(rating="down", rated_at="2026-03-01T10:00:00Z")}).load(panel)
    assert report.traces.skipped == report.feedback.skipped == {OTHER_ANSWER: 1}
    assert Trace.objects.get().response == "kpi (hero): kpi_live"
    assert Feedback.objects.get().value == 1.0


def test_a_question_id_that_stands_for_another_question_is_refused(panel, files):
    files.write(entry()).load(panel)
    report = files.write(entry("e2", question="How cold?"), entry("e3", fixture="x")).load(panel)
    assert report.traces.skipped == {OTHER_QUESTION: 1}
    assert report.traces.imported == 1


def test_the_same_ids_in_another_agent_are_other_answers(panel, files):
    files.write(entry(), ratings={"e1": up()}).load(panel)
    elsewhere = files.load(Agent.objects.create(name="other"))
    assert (elsewhere.traces.imported, elsewhere.feedback.imported) == (1, 1)


def test_ratings_of_unknown_entries_are_skipped_by_name(panel, files):
    report = files.write(entry(), ratings={"e1": up(), "e77": up()}).load(panel)
    assert report.feedback.skipped == {NO_ENTRY: 1}
    assert report.feedback.examples[NO_ENTRY] == ["entry e77"]


def test_an_entry_that_is_rated_twice_in_a_file_counts_once(panel, files):
    files.write(entry())
    files.ratings.write_text(f'{{"e1": {json.dumps(up())}, "e1": {json.dumps(up(rating="down"))}}}')
    for imported in (1, 0):
        report = files.load(panel)
        assert report.feedback.imported == imported
        assert report.feedback.skipped == {RATED_TWICE: 1}
    assert Feedback.objects.get().value == 1.0


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ({"size": "huge"}, "size must be one of"),
        ({"question": 7}, "question must be text"),
        ({"data_override": [1]}, "data_override must be an object"),
        ({"widget_index": "0"}, "widget_index must be a whole number"),
        ({"question": "\x00"}, "NUL"),
        ({"fixture": "\ud83d"}, "surrogate"),
        ({"layout_context": {"a": float("inf")}}, "finite"),
    ],
)
def test_a_damaged_entry_is_skipped_and_the_others_are_imported(panel, files, damage, reason):
    report = files.write(entry("e1", **damage), entry("e2", fixture="x"), ratings={"e1": up(), "e2": up()}).load(panel)
    [(told, count)] = report.traces.skipped.items()
    assert reason in told
    assert count == 1
    assert Trace.objects.get().external_id == "e2"
    assert report.feedback.skipped == {NO_ENTRY: 1}


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ({"rating": "sideways"}, "the rating must be up or down"),
        ({"rating": 5}, "the rating must be up or down"),
        ({"tags": "good"}, "tags must be a list"),
        ({"tags": ["x"] * 21}, "at most 20 tags"),
        ({"notes": "x" * 4001}, "at most 4000 characters"),
        ({"notes": ["no"]}, "notes must be text"),
        ({"rated_at": "yesterday"}, "rated_at must be an ISO 8601 time"),
        ({"rated_at": "0001-01-01T00:00:00+14:00"}, "rated_at"),
    ],
)
def test_a_damaged_rating_is_skipped_by_name(panel, files, damage, reason):
    report = files.write(entry("e1"), entry("e2", fixture="x"), ratings={"e1": up(**damage), "e2": up()}).load(panel)
    [told] = report.feedback.skipped
    assert reason in told
    assert report.feedback.examples[told] == ["entry e1"]
    assert Feedback.objects.get().trace.external_id == "e2"


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text + "}",
        lambda text: "[]",
        lambda text: "",
        lambda text: "not JSON",
        lambda text: '{"run_id": "x"}',
    ],
)
def test_a_file_that_cannot_be_read_leaves_the_database_as_it_was(db, tmp_path, damage):
    made = write_files(tmp_path, questions=40)
    made.entries.write_text(damage(made.entries.read_text()))
    with pytest.raises(BadFile, match=r"exhaustive_data\.json") as caught:
        run(Agent(name="new"), made.entries, made.ratings)
    assert "\n" not in str(caught.value)
    assert not Agent.objects.exists()
    assert not Trace.objects.exists()


def test_broken_ratings_stop_the_import_of_the_entries_too(panel, tmp_path):
    made = write_files(tmp_path, questions=40)
    made.ratings.write_text(made.ratings.read_text()[:-10])
    with pytest.raises(BadFile, match=r"ratings\.json"):
        run(panel, made.entries, made.ratings)
    assert not Trace.objects.exists()


def test_a_file_that_is_not_there_is_a_bad_file(panel, tmp_path):
    with pytest.raises(BadFile, match="cannot be read"):
        run(panel, tmp_path / "nowhere.json")


def test_a_new_agent_is_made_by_the_import(db, files):
    files.write(entry(), ratings={"e1": up()}).load(Agent(name="new"))
    assert Agent.objects.get().traces.count() == 1


def test_an_agent_whose_name_is_no_slug_is_refused(db, files):
    with pytest.raises(ValidationError, match=r"\.\./up"):
        files.write(entry()).load(Agent(name="../up"))


def test_a_dry_run_says_what_a_run_would_do_and_writes_nothing(panel, tmp_path):
    made = write_files(tmp_path, questions=4)
    planned = run(panel, made.entries, made.ratings, dry_run=True)
    assert not Trace.objects.exists()
    assert run(panel, made.entries, made.ratings).as_dict() == planned.as_dict()
    ratings = json.loads(made.ratings.read_text())["ratings"]
    for number, rating in enumerate(ratings.values()):
        rating["rating"], rating["rated_at"] = "up", f"2026-0{1 + number % 3}-05T00:00:00Z"
    made.ratings.write_text(json.dumps(ratings))
    before = list(Feedback.objects.order_by("id").values())
    planned = run(panel, made.entries, made.ratings, dry_run=True)
    assert list(Feedback.objects.order_by("id").values()) == before
    done = run(panel, made.entries, made.ratings)
    assert done.as_dict() == planned.as_dict()
    assert done.traces.updated or done.feedback.updated
    assert done.skipped


@pytest.mark.database
def test_a_dry_run_does_not_make_the_agent(db, files):
    report = files.write(entry(), ratings={"e1": up()}).load(Agent(name="new"), dry_run=True)
    assert (report.traces.imported, report.feedback.imported) == (1, 1)
    assert not Agent.objects.exists()


def test_the_number_of_queries_depends_on_the_chunks_only_but_for_the_rows_that_an_insert_takes(panel, tmp_path):
    counts = []
    for questions in (2, 10):
        folder = tmp_path / str(questions)
        folder.mkdir()
        made = write_files(folder, questions=questions, rated_share=0.9)
        agent = Agent.objects.create(name=f"panel-{questions}")
        with CaptureQueriesContext(connection) as queries:
            run(agent, made.entries, made.ratings)
        counts.append(sum(not re.search("INSERT INTO|^COPY", query["sql"]) for query in queries))
    assert counts[0] == counts[1] < 20


def test_chunks_of_any_size_give_the_same(panel, tmp_path, monkeypatch):
    made = write_files(tmp_path, questions=3)
    monkeypatch.setattr(command_center, "CHUNK", 7)
    steps: list[dict[str, Any]] = []
    report = run(
        panel,
        made.entries,
        made.ratings,
        report=lambda event, values: steps.append(values) if event == "step" else None,
    )
    assert (report.traces.imported, report.feedback.imported) == (made.entry_count, made.rating_count)
    read = report.traces.read + report.feedback.read
    assert steps[-1] == {"step": read, "total_steps": read}


def test_an_unknown_format_is_refused_with_the_known_ones(db):
    assert importer("command_center") is run
    with pytest.raises(UsageError, match="unknown format 'csv'; known: command_center"):
        importer("csv")
    assert set(IMPORTERS) >= {"command_center"}


def test_endless_different_reasons_do_not_fill_the_memory():
    count = ImportCount()
    for number in range(REASONS + 100):
        count.skip(f"entry {number}", f"reason {number}")
    assert len(count.skipped) == REASONS + 1
    assert count.skipped[OTHER] == 100
    assert len(count.examples[OTHER]) == EXAMPLES
