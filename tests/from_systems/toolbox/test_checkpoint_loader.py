"""ToolBoxV2's calls of its checkpoint loader."""

import os
from pathlib import Path

import pytest

from rl.from_systems.toolbox import CheckpointLoader
from tests.from_systems.toolbox.checkpoints.make_checkpoints import write_checkpoints
from tests.from_systems.toolbox.checkpoints.make_version_2 import checkpoint, run, write_version_2

pytestmark = pytest.mark.process


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    folder = tmp_path / ".toolbox" / "Agents" / "checkpoint"
    write_checkpoints(folder, ("filer/a.pkl", "filer", 0, 2, 4), ("filer/b.pkl", "filer", 1, 4, 4))
    write_version_2(tmp_path / "writer", checkpoint(folder / "coder" / "final_checkpoint.pkl", *run("Sort", "sorted")))
    return folder


def test_one_agent_is_named_or_none(folders: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for loader in (CheckpointLoader("filer"), CheckpointLoader("filer", folders / "filer")):
        assert [trace.user_query for trace in loader.load_all_traces()] == [f"filer: question {n}" for n in range(4)]
        assert loader.discover_all_agents() == ["coder", "filer"]
    everybody = CheckpointLoader(checkpoint_path=folders)
    assert len(everybody.load_all_traces()) == 5
    assert {name: len(traces) for name, traces in everybody.load_all_agents_traces().items()} == {
        "coder": 1,
        "filer": 4,
    }
    assert CheckpointLoader("other", folders / "coder").load_all_traces()[0].final_response == "sorted"


def test_checkpoints_are_listed_and_looked_into(folders: Path):
    os.utime(folders / "filer" / "a.pkl", (0, 0))
    loader = CheckpointLoader("filer", folders / "filer")
    newest, oldest = loader.list_checkpoints()
    assert (newest["filename"], oldest["filename"], oldest["modified"]) == (
        "b.pkl",
        "a.pkl",
        "1970-01-01T00:00:00+00:00",
    )
    assert newest["size_mb"] > 0
    traces = loader.extract_traces_from_checkpoint(loader.load_checkpoint(oldest["path"]), "filer")
    assert [trace.final_response for trace in traces] == ["filer: answer 0", "filer: answer 1"]


def test_duplicates_and_old_checkpoints_are_a_choice(folders: Path):
    loader = CheckpointLoader("filer", folders / "filer")
    assert len(loader.load_all_traces(deduplicate=False)) == 5
    os.utime(folders / "filer" / "b.pkl", (0, 0))
    assert len(loader.load_all_traces(max_age_hours=168)) == 2


def test_statistics_of_nothing_are_three(tmp_path: Path, folders: Path):
    assert CheckpointLoader("nobody", tmp_path / "nowhere" / "x").get_training_statistics() == {
        "total_traces": 0,
        "agents_discovered": [],
        "checkpoints_available": 0,
    }
    found = CheckpointLoader(checkpoint_path=folders).get_training_statistics()
    assert (found["total_traces"], found["checkpoints_available"], found["agents_discovered"]) == (
        5,
        3,
        ["coder", "filer"],
    )


def test_tasks_come_from_what_went_well(folders: Path):
    tasks = CheckpointLoader("filer", folders / "filer").generate_synthetic_tasks(num_tasks=1)
    assert tasks == [
        {"prompt": "filer: question 0", "category": "general_tasks", "source": "checkpoint_derived"},
    ]


def test_what_cannot_be_read_is_told(folders: Path):
    (folders / "filer" / "cut.pkl").write_bytes(b"\x80")
    loader = CheckpointLoader("filer", folders / "filer")
    assert len(loader.load_all_traces()) == 4
    assert [rejected.where for rejected in loader.rejected] == ["filer/cut.pkl"]
