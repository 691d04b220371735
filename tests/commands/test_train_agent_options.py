"""What ``train_agent`` is asked for by its file and its options, and what it refuses."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from rl.demo.agent_tasks import SEARCH_TASKS
from rl.models import Agent, ModelVersion, TrainingRun, TrainingSet
from tests.commands.agents import EVEN, Write, own_tasks, planned, question, refused, write

__all__ = ["own_tasks", "write"]
pytestmark = [pytest.mark.learn, pytest.mark.django_db, pytest.mark.usefixtures("timed_before")]
State = TrainingRun.State
GIVEN = {
    "--policy-type": ("policy_type", "plain"),
    "--num-generations": ("num_generations", 3),
    "--async-rollout-workers": ("async_rollout_workers", 2),
    "--temperature": ("temperature", 0.5),
    "--max-new-tokens": ("max_new_tokens", 33),
    "--beta": ("beta", 0.2),
    "--device": ("device", "cpu"),
    "--epochs": ("epochs", 2.0),
    "--sft-first": ("sft_epochs", 3.0),
    "--max-steps": ("max_steps", 7),
    "--batch-size": ("batch_size", 6),
    "--gradient-accumulation": ("gradient_accumulation", 5),
    "--learning-rate": ("learning_rate", 2e-4),
    "--lora-r": ("lora_r", 3),
    "--lora-alpha": ("lora_alpha", 6),
    "--max-length": ("max_length", 900),
    "--save-steps": ("save_steps", 11),
    "--seed": ("seed", 4),
}


def test_every_option_overrides_the_file(data_dir, write: Write):
    options = [part for name, (_, value) in GIVEN.items() for part in (name, str(value))]
    config = planned(write(), *options, "--curriculum")["config"]
    assert {name: config[name] for name, _ in GIVEN.values()} == dict(GIVEN.values())
    assert config["curriculum"] is True
    assert planned(write(), "--full")["config"]["full"] is True


def test_what_no_option_says_comes_from_the_file(data_dir, write: Write, tiny_base: Path):
    document = planned(write())
    config = document["config"]
    expected = {
        "precision": "fp32",
        "max_new_tokens": 4,
        "temperature": 0.9,
        "batch_size": 4,
        "gradient_accumulation": 1,
        "num_generations": 2,
        "max_steps": 2,
        "learning_rate": 1e-3,
        "lora_r": 2,
        "eval_interval": 1,
        "eval_tasks": 3,
        "curriculum": False,
    }
    assert {name: config[name] for name in expected} == expected
    assert config["environment"]["type"] == "search"
    assert config["environment"]["options"] == {"max_turns": 2}
    assert config["environment"]["cache_dir"] == str(data_dir / "search_cache")
    assert (document["agent"], document["base_model"]) == ("asker", str(tiny_base))
    assert planned(write(agent="somebody"))["agent"] == "somebody"
    assert planned(write(agent="somebody"), "--agent", "else")["agent"] == "else"


def test_the_base_model_and_the_tasks_may_be_given_too(data_dir, write: Write, own_tasks: Write, tmp_path):
    folder = own_tasks(some=[question(1), question(2)], others=[question(3)])
    places = ("--dataset-dir", str(folder), "--train-split", "some", "--eval-split", "others")
    document = planned(write(), *places, "--model", "somebody/something")
    assert (document["data"]["train_rows"], document["data"]["heldout_rows"]) == (2, 1)
    assert document["base_model"] == "somebody/something"


def test_the_dry_run_counts_tasks_and_leaves_nothing(data_dir, write: Write):
    document = planned(write())
    assert (document["method"], document["data"]["train_rows"], document["data"]["heldout_rows"]) == ("agent", 28, 12)
    assert document["estimate"]["steps"] == 2
    assert document["tokens"]["answer"] == {"max": 4}
    output = StringIO()
    call_command("train_agent", "--config", str(write()), "--dry-run", stdout=output, verbosity=0)
    assert "rows to train on" in output.getvalue()
    assert not Agent.objects.exists()
    assert not TrainingRun.objects.exists()
    assert [path.name for path in data_dir.iterdir()] == ["speeds"], "what the machine was timed at"


def test_a_missing_key_of_the_web_search_is_told_before_anything(data_dir, write: Write, monkeypatch):
    config = str(write(tools={"search": {"mode": "web", "provider": "tavily"}}))
    monkeypatch.delenv("TAVILY_API_KEY", raising=False)
    assert "the key for tavily must be in the environment variable TAVILY_API_KEY" in refused(
        "--config", config, "--dry-run"
    )
    monkeypatch.setenv("TAVILY_API_KEY", "only-for-tests")
    call_command("train_agent", "--config", config, "--dry-run", verbosity=0, stdout=StringIO())


def test_the_first_tasks_are_shown_and_with_a_dry_run_nothing_is_done(data_dir, write: Write):
    first = [json.loads(line) for line in (SEARCH_TASKS / "train.jsonl").read_text().splitlines()[:2]]
    assert planned(write(), "--preview-tasks", "2")["tasks"] == first
    assert "tasks" not in planned(write(), "--preview-tasks", "0")
    output = StringIO()
    options = ("--config", str(write()), "--preview-tasks", "1", "--dry-run")
    call_command("train_agent", *options, stdout=output, verbosity=0)
    assert first[0]["task_id"] in output.getvalue()
    assert first[0]["question"] in output.getvalue()
    assert not Agent.objects.exists()
    assert not TrainingRun.objects.exists()


def test_held_out_tasks_are_left_out_of_the_training_and_counted(data_dir, write: Write, own_tasks: Write):
    twice = {**question(1), "task_id": "once more"}
    folder = own_tasks(train=[question(1), question(2), twice, question(3)], eval=[question(1), question(9)])
    data = planned(write(), "--dataset-dir", str(folder))["data"]
    assert (data["train_rows"], data["heldout_rows"]) == (2, 2)
    assert data["skipped"] == {"task is held out too": 2}


# --- what is refused ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"train": {"num_iter": 3}}, "line 14): unknown key 'train.num_iter' (did you mean num_iters?)"),
        ({"env": {"type": "serch"}}, "unknown environment 'serch'"),
        ({"env": {"type": "search", "max_turns": 0}}, "max_turns must be 1 or more"),
        ({"policy": {"temperature": 0}}, "temperature"),
        ({"trian": {}}, "unknown key 'trian' (did you mean train?)"),
        ({"data": {"dataset_dir": "nowhere"}}, "there is none at"),
    ],
)
def test_a_file_that_says_what_cannot_be_names_the_line(data_dir, write: Write, sections: dict[str, Any], told: str):
    path = write(**sections)
    said = refused("--config", str(path))
    assert str(path) in said
    assert "(line " in said
    assert told.removeprefix("line 14): ") in said
    assert not Agent.objects.exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "--config is missing: a YAML file that says which environment"),
        (("--agent", "asker"), "--config is missing"),
        (("--resume",), "--config is missing"),
        (("--config", "/nowhere/at-all.yaml"), "/nowhere/at-all.yaml: cannot be read"),
    ],
)
def test_there_must_be_a_file(data_dir, options: tuple[str, ...], told: str):
    assert told in refused(*options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--num-generations", "1"), "num_generations must be a number from 2 to 64"),
        (("--async-rollout-workers", "-1"), "async_rollout_workers must be"),
        (("--agent", "no good name"), "agent name"),
        (("--vllm-server", "http://localhost:8000"), "the package vllm is not installed here"),
        (("--dataset-dir", "/nowhere"), "/nowhere is not a folder"),
        (("--train-split", "training"), "has no split 'training'; there are: eval, train"),
        (("--max-new-tokens", "2048"), "leaves no room for a prompt in max_length 2048"),
        (("--model-name", "x"), "--model-name names the exported model"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(data_dir, write: Write, monkeypatch, options: tuple[str, ...], told: str):
    monkeypatch.setattr("rl.scoring.rollouts.find_spec", lambda name: None)
    assert told in refused("--config", str(write()), *options, "--dry-run")
    assert not Agent.objects.exists()


def test_what_is_refused_before_there_is_a_run_makes_no_agent(data_dir, write: Write):
    for options in (("--num-generations", "1"), ("--export", "--quantization", "q9_9")):
        refused("--config", str(write()), *options)
    assert "unknown agent 'asker'" in refused("--config", str(write()), "--resume")
    assert not Agent.objects.exists()


def test_a_file_without_a_usable_name_needs_an_agent(data_dir, write: Write):
    assert "agent name 'my agent'" in refused("--config", str(write("my agent.yaml")))
    assert not Agent.objects.exists()


def test_an_environment_of_ones_own_needs_tasks(data_dir, write: Write):
    path = write(env={"type": EVEN})
    for more in ((), ("--dry-run",), ("--preview-tasks", "3")):
        assert f"say where the tasks of {EVEN} are by --dataset-dir" in refused("--config", str(path), *more)
    assert [run.state for run in TrainingRun.objects.all()] == [State.FAILED]
    assert not TrainingSet.objects.exists()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"task_id": "b", "question": "Who?"', "(line 2, column 36): not valid JSON"),
        ({"task_id": "b", "question": "Who?"}, "(line 2, field 'answer'): is missing"),
        (question(1), "(line 2, field 'task_id'): 'q1' is the task of line 1 already"),
    ],
)
def test_a_bad_file_of_tasks_names_the_line_and_the_field_and_nothing_is_half_written(
    data_dir, write: Write, own_tasks: Write, line: Any, told: str
):
    folder = own_tasks(train=[question(1), line], eval=[question(3)])
    path = write(data={"dataset_dir": str(folder)})
    for more in (("--preview-tasks", "1"), ("--dry-run",), ()):
        said = refused("--config", str(path), *more)
        assert str(folder / "train.jsonl") in said
        assert told in said
    assert not TrainingSet.objects.exists()
    assert not ModelVersion.objects.exists()
    assert not (data_dir / "training_sets").exists() or list((data_dir / "training_sets").iterdir()) == []
    assert [run.state for run in TrainingRun.objects.all()] == [State.FAILED]


def test_where_every_task_is_held_out_there_is_too_little(data_dir, write: Write, own_tasks: Write):
    folder = own_tasks(train=[question(1)], eval=[question(1)])
    for more in (("--dry-run",), ()):
        said = refused("--config", str(write()), "--dataset-dir", str(folder), *more, code=3)
        assert "there is no task to train on, and 1 held-out task" in said
    assert not TrainingSet.objects.exists()


def test_a_device_that_is_not_here_is_refused(data_dir, write: Write):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    for device in ("cuda", "cuda:0", "cuda:3"):
        assert f"there is no device {device} here" in refused("--config", str(write()), "--device", device)
    assert "device must look like auto|cpu|mps|cuda" in refused("--config", str(write()), "--device", "gpu")
    assert not TrainingRun.objects.exists()
    assert not Agent.objects.exists()


@pytest.mark.parametrize("option", ["--model", "--hf-model-name"])
def test_a_misspelt_model_is_refused_at_once(data_dir, write: Write, option: str):
    assert "there is no base model nobody/nothing" in refused("--config", str(write()), option, "nobody/nothing")
    path = write(model={"name": "minimind-base"})
    assert "there is no base model minimind-base: neither a folder here nor on the hub" in refused(
        "--config", str(path)
    )
    assert not Agent.objects.exists()


def test_the_model_may_be_given_in_several_ways(data_dir, write: Write, tiny_base: Path):
    path = write(model={"name": "nobody/nothing"})
    assert planned(path, "--model-path", str(tiny_base))["base_model"] == str(tiny_base)
    hub = ("--policy-type", "huggingface", "--hf-model-name", "somebody/something")
    assert planned(path, *hub)["base_model"] == "somebody/something"
    assert planned(path, *hub, "--model-path", str(tiny_base))["config"]["policy_type"] == "auto"
    assert "--model-path nowhere: there is no such folder" in refused("--config", str(path), "--model-path", "nowhere")
    both = ("--model", str(tiny_base), "--model-path", str(tiny_base))
    assert "leave out --model-path" in refused("--config", str(path), *both)


def test_a_run_goes_on_only_with_what_it_was_started_with(data_dir, write: Write):
    path = write(policy={"max_new_tokens": 2040})
    assert "leave no room for an answer" in refused("--config", str(path), code=3)
    assert refused("--config", str(write()), "--resume").endswith("leave out --config")
    assert "leave out --seed" in refused("--agent", "asker", "--seed", "7", "--resume")
    assert "leave out --train-split" in refused("--agent", "asker", "--train-split", "eval", "--resume")
    assert "asker has no stopped run 99 to resume" in refused("--agent", "asker", "--resume", "99")
    same = write(policy={"max_new_tokens": 2040})
    assert "leave no room for an answer" in refused("--config", str(same), "--resume", code=3)
    assert TrainingRun.objects.get().attempt == 2
