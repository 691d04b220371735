import os
import pickle
from pathlib import Path

import pytest

from rl.base.errors import BadFile, UsageError
from rl.from_systems.toolbox import CheckpointLoader
from rl.from_systems.toolbox.checkpoints import agents_folder
from rl.from_systems.toolbox.checkpoints.agents_folder import AgentsFolder, open_checkpoint
from tests.from_systems.toolbox.checkpoints.hostile import call, dotted, name, text, whole
from tests.from_systems.toolbox.checkpoints.make_checkpoints import write_checkpoints

pytestmark = pytest.mark.process


KEYS = [
    "total_traces",
    "unique_sessions",
    "labeled_traces",
    "unlabeled_traces",
    "traces_with_tool_calls",
    "traces_with_reasoning",
    "unique_tools_used",
    "tools_list",
    "avg_query_length",
    "avg_response_length",
    "total_tokens_in",
    "total_tokens_out",
    "total_cost",
    "agents_discovered",
    "checkpoints_available",
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three agents. The first has two checkpoints that overlap: turns 0-2 and 1-4."""
    folder = tmp_path / "data" / "Agents" / "checkpoint"
    write_checkpoints(
        folder,
        ("filer/a.pkl", "filer", 0, 2, 2),
        ("filer/b.pkl", "filer", 1, 4, 4),
        ("writer/a.pkl", "writer", 0, 1, 5),
    )
    (folder / "idle").mkdir()
    return tmp_path / "data"


def test_it_finds_agents_checkpoints_and_each_conversation_once(data: Path):
    os.utime(data / "Agents/checkpoint/filer/a.pkl", (0, 0))
    loader = AgentsFolder(data)
    assert loader.discover_all_agents() == ["filer", "writer"]
    assert [file.filename for file in loader.list_checkpoints("filer")] == ["b.pkl", "a.pkl"]
    traces = [conversation.trace for conversation in loader.find_conversations("filer")]
    assert [trace.user_query for trace in traces] == [f"filer: question {n}" for n in range(4)]
    assert [len(trace.tool_calls) for trace in traces] == [1, 2, 1, 2]
    assert sum(trace.total_tokens_in for trace in traces) == 400
    assert len(loader.find_conversations("writer")) == 1
    assert loader.rejected == []


def test_the_folder_of_agents_will_do_and_anything_else_is_an_error(data: Path):
    assert AgentsFolder(data / "Agents" / "checkpoint").discover_all_agents() == ["filer", "writer"]
    with pytest.raises(UsageError, match="is not a folder"):
        AgentsFolder(data / "nowhere")


def test_statistics_have_toolboxs_names(data: Path):
    folder = data / "Agents/checkpoint"
    found = CheckpointLoader(checkpoint_path=folder).get_training_statistics()
    assert list(found) == KEYS
    assert (found["total_traces"], found["unlabeled_traces"], found["labeled_traces"]) == (5, 5, 0)
    assert (found["unique_sessions"], found["checkpoints_available"]) == (2, 3)
    assert found["tools_list"] == ["fetch", "search"]
    assert found["total_tokens_in"] == 400 + 100
    assert found["avg_query_length"] == (4 * len("filer: question 0") + len("writer: question 0")) / 5
    assert CheckpointLoader("writer", folder / "writer").get_training_statistics()["total_traces"] == 1


def test_a_damaged_checkpoint_is_reported_and_the_others_are_loaded(data: Path):
    folder = data / "Agents/checkpoint/filer"
    good = (folder / "b.pkl").read_bytes()
    (folder / "cut.pkl").write_bytes(good[: len(good) // 2])
    (folder / "other.pkl").write_bytes(pickle.dumps([1, 2]))
    (folder / "empty.pkl").write_bytes(b"")
    loader = AgentsFolder(data)
    assert len(loader.find_conversations("filer")) == 4
    reasons = {one.where: one.reason for one in loader.rejected}
    assert set(reasons) == {"filer/cut.pkl", "filer/other.pkl", "filer/empty.pkl"}
    assert "byte " in reasons["filer/cut.pkl"]
    assert "not a checkpoint of an agent" in reasons["filer/other.pkl"]


def test_a_checkpoint_that_runs_a_command_runs_none(data: Path, tmp_path: Path):
    """The command stands where a conversation is looked for."""
    witness = tmp_path / "witness"
    command = call(name("os", "system"), text(f"touch {witness}"))
    evil = data / "Agents/checkpoint/writer/evil.pkl"
    evil.write_bytes(whole(b"}" + text("session_data") + command + b"s"))
    loader = AgentsFolder(data)
    assert len(loader.find_conversations("writer")) == 1
    assert not witness.exists()
    pickle.loads(evil.read_bytes())
    assert witness.exists(), "the standard unpickler runs it"


@pytest.mark.parametrize("wrong", ["../filer", "/etc", "", ".hidden", "a/b", "con"])
def test_names_that_no_agent_can_have_are_refused(data: Path, wrong: str):
    with pytest.raises(UsageError, match="agent name"):
        AgentsFolder(data).find_conversations(wrong)


def test_a_folder_with_such_a_name_is_reported(data: Path):
    (data / "Agents/checkpoint/writer").rename(data / "Agents/checkpoint/my writer")
    loader = AgentsFolder(data)
    assert loader.discover_all_agents() == ["filer"]
    assert [one.where for one in loader.rejected] == ["my writer"]


def test_names_of_files_and_classes_cannot_steer_a_terminal(data: Path):
    (data / "Agents/checkpoint/writer/\x1b[2J.pkl").write_bytes(whole(call(dotted("os", "\x1b]0;x\x07"))))
    os.close(os.open(os.fsencode(data / "Agents/checkpoint/writer") + b"/\xff.pkl", os.O_CREAT))
    loader = AgentsFolder(data)
    assert len(loader.find_conversations("writer")) == 1
    assert len(loader.rejected) == 2
    assert all((one.where + one.reason).isprintable() for one in loader.rejected)


def test_links_are_not_followed_and_pipes_do_not_block(data: Path, tmp_path: Path):
    agents = data / "Agents/checkpoint"
    outside = tmp_path / "outside"
    agents.joinpath("writer").rename(outside)
    (agents / "linked").symlink_to(outside, target_is_directory=True)
    (agents / "filer" / "link.pkl").symlink_to(outside / "a.pkl")
    os.mkfifo(agents / "filer" / "pipe.pkl")
    loader = AgentsFolder(data)
    assert loader.discover_all_agents() == ["filer"]
    assert loader.find_conversations("linked") == []
    assert [file.filename for file in loader.list_checkpoints("filer")] == ["b.pkl", "a.pkl"]


def test_a_file_that_becomes_a_link_after_it_was_listed_is_not_followed(data: Path):
    loader = AgentsFolder(data)
    (file,) = loader.list_checkpoints("writer")
    file.path.rename(data / "moved.pkl")
    file.path.symlink_to(data / "moved.pkl")
    with pytest.raises(BadFile, match="cannot be read"), open_checkpoint(file.path):
        pass


def test_a_process_that_takes_too_long_is_stopped_and_named(data: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(agents_folder, "WALL_SECONDS", 0.001)
    loader = AgentsFolder(data)
    assert loader.find_conversations("writer") == []
    assert "took more than" in loader.rejected[0].reason


def test_a_file_that_needs_too_much_memory_is_refused(data: Path):
    """One text of 5 MB, a thousand times in one message; the process may have 1 GB."""
    history = [{"role": "user", "content": ["x" * 5_000_000] * 1000}, {"role": "assistant", "content": "y"}]
    bomb = pickle.dumps({"session_data": {"s": {"history": history}}})
    (data / "Agents/checkpoint/writer/bomb.pkl").write_bytes(bomb)
    loader = AgentsFolder(data)
    assert len(loader.find_conversations("writer")) == 1
    assert [(one.where, one.reason) for one in loader.rejected] == [
        ("writer/bomb.pkl", "needs more than 1 GB of memory")
    ]
