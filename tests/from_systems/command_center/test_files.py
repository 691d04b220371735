"""The files of ratings that Command Center writes, each read as what it says."""

import json
from pathlib import Path
from typing import Any

import pytest

from rl.collect.importers.command_center import run
from rl.collect.ingest.importing import import_files
from rl.dataset_builder.read.files import FileSource
from rl.dataset_builder.read.groups import Tally
from rl.models import Agent, Feedback, Trace
from tests.collect.test_import_command_center import entry

pytestmark = pytest.mark.django_db


def thumb(rating: str, device: str | None = None, at: str = "2026-02-02T10:00:00Z", entry_id: str = "e1") -> dict:
    row = {"rating": rating, "tags": ["perfect"], "notes": "", "rated_at": at}
    return row if device is None else {**row, "entry_id": entry_id, "device_id": device, "id": "x", "created_at": at}


SERVERS_LIST = [
    thumb("down", "tablet", "2026-02-03T10:00:00Z"),
    thumb("up", "tablet", "2026-02-02T10:00:00Z"),
    thumb("down", ""),
    thumb("up", "phone"),
    thumb("up", "phone", entry_id="e9"),
]
PAGE_EXPORT = {"exported_at": "2026-02-03T10:00:00Z", "stats": {"total": 1, "rated": 1}, "ratings": {"e1": thumb("up")}}


class Files:
    def __init__(self, folder: Path, ratings: Any) -> None:
        self.data, self.ratings = folder / "exhaustive_data.json", folder / "widget_ratings_2026-02-03.json"
        self.data.write_text(json.dumps({"run_id": "run-1", "entries": [entry()]}))
        self.ratings.write_text(json.dumps(ratings))

    def votes(self) -> tuple[int, int, dict[str, int]]:
        """Up and down of the entry, and what was skipped, without the database."""
        tally = Tally()
        (group,) = FileSource(self.data, self.ratings).groups(tally)
        (answer,) = group.answers
        assert len(set(answer.feedback_ids)) == answer.up + answer.down
        return answer.up, answer.down, dict(tally.skipped)


@pytest.mark.parametrize("ratings", [{"ratings": {"e1": thumb("up")}}, {"e1": thumb("up")}, PAGE_EXPORT])
def test_a_map_of_ratings_is_one_devices(tmp_path: Path, agent: Agent, ratings: Any):
    files = Files(tmp_path, ratings)
    assert files.votes() == (1, 0, {})
    report = run(agent, files.data, files.ratings)
    assert (report.feedback.imported, dict(report.feedback.skipped)) == (1, {})
    assert Feedback.objects.get().rater == "device:command-center"


@pytest.mark.database
def test_of_the_servers_list_the_latest_of_each_device_counts_and_then_the_majority(tmp_path: Path, agent: Agent):
    files = Files(tmp_path, SERVERS_LIST)
    assert files.votes() == (1, 2, {"rating of an entry that is not in the file": 1})
    run(agent, files.data, files.ratings)
    current = Feedback.objects.filter(is_current=True).values_list("rater", "value")
    assert dict(current) == {"device:tablet": 0.0, "device:": 0.0, "device:phone": 1.0}


def test_what_is_damaged_in_the_list_is_skipped_with_its_reason(tmp_path: Path, agent: Agent):
    bad = [5, {"rating": "up"}, {**thumb("up", "x"), "device_id": 7}, {**thumb("up", "x"), "entry_id": "a\0b"}]
    report = run(agent, *vars(Files(tmp_path, [*bad, thumb("up", "phone")])).values())
    assert (report.feedback.read, report.feedback.imported, report.feedback.skipped.total()) == (5, 1, 4)


def test_a_widget_with_one_fixture_may_leave_its_name_empty(tmp_path: Path, agent: Agent):
    files = Files(tmp_path, {})
    files.data.write_text(json.dumps({"entries": [entry(fixture="", pipeline_selected_fixture="")]}))
    assert run(agent, files.data).traces.imported == 1
    assert Trace.objects.get().details["fixture"] == "default-render"


# --- the gallery -------------------------------------------------------------------------------------------------------


def star(number: int, variant: str, rating: Any) -> dict[str, Any]:
    tags = ["looks-good", "keep-as-is"]
    fields = {"id": f"w{number}", "scenario": "kpi", "variant": variant, "tags": tags, "notes": "fine"}
    return {**fields, "rating": rating, "timestamp": 1767225600000}


@pytest.mark.database
def test_stars_of_the_gallery_rate_the_variants_of_a_widget(tmp_path: Path, agent: Agent):
    path = tmp_path / "widget-feedback.json"
    document = {
        "widgets": [star(1, "live", 5), star(2, "daily", 1), star(3, "plain", 0), star(4, "odd", 9)],
        "dashboards": [{"id": "d1", "dashboardId": "main", "rating": 4, "notes": ""}],
        "pages": [{"id": "p1", "pageId": "rl", "notes": "slow"}],
        "exportedAt": "2026-02-03T10:00:00Z",
    }
    path.write_text(json.dumps(document))
    for imported in (2, 0):
        report = import_files("command_center_gallery", [str(path)], agent=agent)
        assert report.traces.imported == imported
    assert sorted(report.traces.skipped) == [
        "is about a whole dashboard or page; only widgets are read",
        "rating must be a whole number from 0 to 5, not 9",
        "was not rated: it has 0 stars",
    ]
    assert dict(Feedback.objects.values_list("trace__response", "raw_value")) == {"live": 5.0, "daily": 1.0}
    first, second = Trace.objects.all()
    assert first.prompt_key == second.prompt_key
    assert Feedback.objects.first().tags == ["looks-good", "keep-as-is"]
