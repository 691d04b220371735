import json
from pathlib import Path

import pytest

from tests.commands.site import Site

pytestmark = pytest.mark.process


CONFIG = {
    "agent": "learner",
    "env": {"type": "code_exec", "max_turns": 1},
    "rollout": {"num_generations": 2, "num_episodes_per_iter": 2},
    "train": {"num_iters": 3, "max_new_tokens": 2, "save_steps": 2},
    "eval": {"eval_interval": 0},
    "data": {"dataset_dir": "tasks", "eval_split": ""},
}
MEASURED = """
from rl.collect.traces.episodes import store_episodes
from rl.models import Agent
from tests.collect.made_episodes import episode
from rl.environments.episode import Turn
agent = Agent.objects.create(name="learner")
ends = {"a": "++", "b": "--", "d": "+-", "e": "+--"}
store_episodes(agent, [
    episode(name, sample=n, success=end == "+", reward=float(end == "+"), turns=(Turn(f"{n}"),))
    for name, of_task in ends.items() for n, end in enumerate(of_task)
])
"""


def write_tasks(folder: Path) -> Path:
    (folder / "tasks").mkdir()
    tasks = [{"task_id": name, "prompt": f"Print {name}.", "tests": [{"output": name}]} for name in "abcde"]
    (folder / "tasks/train.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    (folder / "agent.yaml").write_text(json.dumps(CONFIG))
    return folder / "agent.yaml"


def test_the_hardest_tasks_that_still_teach_are_trained_on_first(site: Site, tmp_path):
    config = write_tasks(tmp_path)
    site.run("shell", "--no-imports", "-c", MEASURED)
    told = " ".join(site.run("train_agent", "--config", str(config), "--curriculum").stderr.split())
    assert "curriculum: 2 sometimes solved, then 1 never tried, then 1 never solved, then 1 always solved" in told
    trained_on = site.query("SELECT DISTINCT step, task_id FROM rl_episode WHERE split = 'train' ORDER BY step")
    assert trained_on == [(0, "e"), (1, "d"), (2, "c")]
