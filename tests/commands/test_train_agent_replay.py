import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands.ends import ends_of
from tests.commands.site import Site

pytestmark = pytest.mark.process


CONFIG: dict[str, Any] = {
    "agent": "learner",
    "model": {"dtype": "float32"},
    "policy": {"type": "plain"},
    "env": {"type": "replay", "max_turns": 2},
    "rollout": {"num_generations": 2, "num_episodes_per_iter": 2},
    "train": {"num_iters": 2, "max_new_tokens": 4},
    "eval": {"eval_interval": 0},
}
"""Its precision is that in which the machine was timed with the tiny model."""
REPLAYED = (
    "SELECT step, tool_calls, details FROM rl_episode JOIN rl_trace ON trace_id = rl_trace.id "
    "WHERE environment = 'replay' AND split = 'train'"
)
STORED = """
from rl.collect.traces.episodes import store_episodes
from rl.environments.episode import Turn
from rl.models import Agent
from rl.base.records import Message, ToolCall
from tests.collect.made_episodes import ANSWERED, episode
asked = (Message(role="user", content="Task 4?"),)
turns = (Turn("", (ToolCall("exec_code", {"code": "x"}, "a purple elephant"),)), ANSWERED)
failed = [episode(sample=n, prompt=asked, turns=(turns[0], Turn(f"{n}")), success=False, reward=0.0) for n in range(3)]
store_episodes(Agent.objects.create(name="learner"), [*failed, episode(prompt=asked, turns=turns)])
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    return write(tmp_path / "replay.yaml", CONFIG)


def write(path: Path, document: dict[str, Any]) -> str:
    path.write_text(json.dumps(document))
    return str(path)


def test_an_agent_is_trained_on_its_own_episodes(site: Site, config: str):
    site.run("shell", "--no-imports", "-c", STORED)
    [task] = site.json("train_agent", "--config", config, "--preview-tasks", "3", "--dry-run")["tasks"]
    assert [call["result"] for call in task["recorded"]] == ["a purple elephant"]
    rows = site.json("train_agent", "--config", config, "--dry-run")["data"]
    assert (rows["train_rows"], rows["heldout_rows"]) == (1, 0)
    assert "Task 4?" in site.run("train_agent", "--config", config, "--preview-tasks", "1", "--dry-run").stdout
    assert site.query("SELECT count(*) FROM rl_trainingrun") == [(0,)]
    document = site.json("train_agent", "--config", config)
    assert (document["steps"], document["evaluation"]["measure"]) == (2, "success")
    assert sorted(step for step, _, _ in site.query(REPLAYED)) == [0, 0, 1, 1]


def test_an_agent_without_calls_of_tools_exits_with_3_and_tools_of_the_file_with_2(
    site: Site, config: str, tmp_path: Path
):
    asked = write(tmp_path / "tools.yaml", {**CONFIG, "tools": {"search": {"mode": "corpus"}}})
    nothing = [("train_agent", "--config", config, *more) for more in ((), ("--dry-run",), ("--preview-tasks", "3"))]
    *ends, (code, told) = ends_of(site, *nothing, ("train_agent", "--config", asked))
    assert (code, "the tools of replay come with its tasks: leave out tools" in " ".join(told.split())) == (2, True)
    for code, told in ends:
        assert code == 3
        assert "learner has no traces with calls of tools to be replayed" in " ".join(told.split())
