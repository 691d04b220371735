import json
from pathlib import Path
from typing import Any

import pytest

from rl.collect.ingest.importing import import_files
from rl.collect.traces.imported import ImportedTrace
from rl.from_systems.toolbox.trace_file import read
from rl.models import Agent, Feedback, Trace
from tests.collect.importers.test_trace_file import SHELL, TRACE


def arguments_of(path: Path, arguments: Any) -> Any:
    (path / "a.json").write_text(json.dumps({**TRACE, "tool_calls": [{**SHELL, "arguments": arguments}]}))
    (read_trace,) = read(path / "a.json")
    assert isinstance(read_trace, ImportedTrace)
    return read_trace.tool_calls[0].arguments


@pytest.mark.parametrize(
    ("stored", "read_as"),
    [
        ({"args": [], "kwargs": {"cmd": "ls"}}, {"cmd": "ls"}),
        ({"args": ["ls"], "kwargs": {"cwd": "/"}}, {"args": ["ls"], "cwd": "/"}),
        ({"args": ["ls"], "kwargs": {}, "more": 1}, {"args": ["ls"], "kwargs": {}, "more": 1}),
        ({"cmd": "ls"}, {"cmd": "ls"}),
        ("ls", "ls"),
    ],
)
def test_arguments_that_the_old_hook_folded_are_unfolded(tmp_path: Path, stored: Any, read_as: Any):
    assert arguments_of(tmp_path, stored) == read_as


@pytest.mark.database
@pytest.mark.django_db
def test_labels_are_recorded_as_those_of_toolbox(tmp_path: Path):
    for day, reviewed in (("05", True), ("06", False)):
        folder = tmp_path / f"2026-01-{day}"
        folder.mkdir()
        (folder / "a.json").write_text(json.dumps({**TRACE, "trace_id": day, "manual_review": reviewed}))
    report = import_files("toolbox_trace", [tmp_path], agent=Agent(name="filer"))
    assert (report.traces.imported, report.feedback.imported) == (2, 2)
    assert set(Feedback.objects.values_list("rater", flat=True)) == {"user:toolbox", "system:toolbox"}
    assert set(Trace.objects.values_list("source", flat=True)) == {"toolbox_trace"}
