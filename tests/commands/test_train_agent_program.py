"""The page on agents as they are, typed as it stands there."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from django.conf import settings

from rl.environments.config_file import read_agent_file
from rl.models import Agent, Episode, TrainingRun
from tests.commands.agents import Write, own_tasks, planned, refused, trained, write
from tests.environments.program.agents import ASK

__all__ = ["own_tasks", "write"]
PAGE = Path(settings.BASE_DIR) / "docs/own-agents.md"
pytestmark = [pytest.mark.learn, pytest.mark.django_db, pytest.mark.usefixtures("timed_before")]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture
def till(tmp_path: Path, tiny_base: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's file, tasks and agent, with the tiny model, and the ``python3`` that has OpenAI's client."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    document = yaml.safe_load(blocks("yaml")[0])
    document["model"] = {"name": str(tiny_base)}
    shutil.copy(PAGE.parent / "examples/openai_agent.py", tmp_path)
    (tmp_path / "tasks").mkdir()
    row = json.loads(blocks("json")[0])
    for split, count in (("train", 2), ("eval", 1)):
        rows = [
            row | {"task_id": f"{split}{n}", "prompt": f"{row['prompt']} Say it {split} {n}."} for n in range(count)
        ]
        (tmp_path / "tasks" / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    path = tmp_path / "till.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def test_the_pages_files_are_read(till: Path):
    file = read_agent_file(till)
    assert file.environment.options["command"] == ["python3", "{folder}/openai_agent.py"]
    assert file.environment.options["folder"] == str(till.parent)
    for text in blocks("yaml"):
        till.write_text(text.replace("data: {dataset_dir: tasks}", ""))
        assert read_agent_file(till).environment.type == "program"


@pytest.mark.slow
def test_the_pages_agent_is_trained_by_the_pages_command(data_dir, till: Path):
    assert planned(till)["config"]["environment"]["type"] == "program"
    document = trained(till, "--max-steps", "1", "--num-generations", "2", "--batch-size", "2", "--max-new-tokens", "8")
    assert (document["version"], document["steps"], document["evaluation"]["prompts"]) == ("tasks-v1", 1, 1)
    episode = Episode.objects.filter(split="train").first()
    assert episode.environment == "program"
    assert episode.trace.prompt[0]["content"] == "Add up with the tool. Answer with the sum."
    assert episode.trace.details["episode"]["info"]["exit_code"] == 0


def test_an_environment_is_chosen_by_its_name(data_dir, till: Path, monkeypatch: pytest.MonkeyPatch, own_tasks: Write):
    folder = till.parent / "environments"
    folder.mkdir()
    monkeypatch.setattr(settings, "ENVIRONMENTS_DIR", folder)
    command = [sys.executable, "-c", ASK + 'ask([user(task["prompt"])])']
    env = {"type": "program", "command": command}
    (folder / "shop.yaml").write_text(yaml.safe_dump({"env": env, "data": {"dataset_dir": str(till.parent / "tasks")}}))
    model = yaml.safe_load(till.read_text())["model"]["name"]
    document = trained(
        None,
        "--environment",
        "shop",
        "--model",
        model,
        "--num-generations",
        "2",
        "--batch-size",
        "2",
        "--max-steps",
        "1",
        "--max-new-tokens",
        "4",
    )
    assert document["steps"] == 1
    assert Agent.objects.get().name == "shop"
    assert TrainingRun.objects.get().config["environment"]["options"]["command"] == command
    message = refused("--environment", "shob")
    assert message.startswith("no environment is registered under the name 'shob'; registered: shop.")
    assert "ENVIRONMENTS_DIR" in message
    assert "not allowed with" in refused_by_parser("--environment", "shop", "--config", str(till))


def refused_by_parser(*options: str) -> str:
    from django.core.management import CommandError, call_command

    with pytest.raises(CommandError) as refusal:
        call_command("train_agent", *options)
    return str(refusal.value)


def test_a_command_that_is_not_there_fails_the_run_with_its_name(data_dir, till: Path):
    document = yaml.safe_load(till.read_text())
    document["env"]["command"] = ["no-such-agent"]
    till.write_text(yaml.safe_dump(document))
    message = refused("--config", str(till), "--max-steps", "1")
    assert "the command 'no-such-agent' cannot be started: No such file or directory" in message
