"""From a configuration file to a version of an agent that calls tools."""

import json
from io import StringIO
from pathlib import Path

import pytest
import yaml
from django.core.management import call_command

from rl.config.authority import Owner
from rl.dataset_builder import DataOptions
from rl.demo.agent_tasks import CODE_TASKS
from rl.models import Agent, Episode, Evaluation, MetricPoint, TrainingRun, TrainingSet
from rl.runs import run as runs
from tests.commands.agents import EVEN, Write, own_tasks, trained, write
from tests.commands.site import Site, kill_session

pytestmark = pytest.mark.learn


__all__ = ["own_tasks", "write"]
State = TrainingRun.State


@pytest.mark.django_db
def test_a_search_agent_is_made_trained_and_measured_and_the_next_run_is_the_same_agents(data_dir, write: Write):
    path = write()
    document = trained(path)
    agent = Agent.objects.get()
    assert (agent.name, agent.base_model) == ("asker", yaml.safe_load(path.read_text())["model"]["name"])
    assert (document["version"], document["steps"]) == ("tasks-v1", 2)
    evaluation = document["evaluation"]
    assert (evaluation["measure"], evaluation["prompts"], evaluation["learned"]) == ("success", 12, 0)
    assert evaluation["models"]["new"]["reward"]["value"] == 0
    run = TrainingRun.objects.get()
    assert (run.state, run.method, run.training_set.method) == (State.SUCCEEDED, "agent", "agent")
    assert (run.training_set.train_rows, run.training_set.heldout_rows) == (28, 12)
    assert Episode.objects.filter(run=run, split="train").count() == 2 * 4
    assert Episode.objects.filter(run=run, split="eval").count() == 3 * 3
    assert {"success", "turns", "heldout_success"} <= MetricPoint.objects.get(run=run, step=2).values.keys()
    assert MetricPoint.objects.get(run=run, step=0).values == {"heldout_success": 0.0}
    assert (data_dir / document["artifacts"]["adapter"] / "adapter_model.safetensors").exists()

    again = trained(path, "--agent", "ASKER", "--max-steps", "1", "--seed", "9")
    assert (again["version"], again["steps"]) == ("tasks-v2", 1)
    assert Agent.objects.count() == TrainingSet.objects.count() == 1
    _measure(agent, data_dir / again["artifacts"]["adapter"])


def _measure(agent: Agent, adapter: Path) -> None:
    """The version, and its folder as if it were no version."""
    output = StringIO()
    call_command("evaluate_model", "--agent", agent.name, "--version", "tasks-v2", stdout=output, verbosity=0)
    assert "Held-out tasks solved, asker tasks-v2: 12 tasks" in output.getvalue()
    assert Evaluation.objects.filter(version__name="tasks-v2").count() == 2
    output = StringIO()
    checkpoint = ("--checkpoint", str(adapter), "--json")
    call_command("evaluate_model", "--agent", agent.name, *checkpoint, stdout=output, verbosity=0)
    document = json.loads(output.getvalue())
    assert (document["measure"], document["pairs"], document["verdict"]) == ("success", 12, "undecided")


@pytest.mark.django_db
def test_a_code_agent_learns_from_the_programs_that_it_writes(data_dir, write: Write, own_tasks: Write):
    lines = (CODE_TASKS / "train.jsonl").read_text().splitlines()
    folder = own_tasks(train=lines[:3], eval=lines[3:5])
    env = {"type": "code_exec", "max_turns": 2, "test_timeout": 2.0, "timeout_penalty": -0.1}
    document = trained(write("coder.yaml", env=env, data={"dataset_dir": "tasks"}))
    assert (document["version"], document["evaluation"]["prompts"]) == ("tasks-v1", 2)
    assert TrainingRun.objects.get().options["dataset_dir"] == str(folder)
    assert set(Episode.objects.values_list("environment", flat=True)) == {"code_exec"}
    assert "test 1 of " in Episode.objects.filter(split="eval").first().reason


@pytest.mark.django_db
def test_tasks_of_an_environment_of_ones_own(data_dir, write: Write, own_tasks: Write):
    folder = own_tasks(train=[{"task_id": f"t{number}", "number": number} for number in range(4)])
    path = write(env={"type": EVEN, "rounds": 1}, data={"dataset_dir": str(folder), "eval_split": ""})
    document = trained(path)
    assert (document["version"], document["evaluation"]["verdict"]) == ("tasks-v1", "undecided")
    assert set(Episode.objects.values_list("split", flat=True)) == {"train"}


@pytest.mark.django_db
def test_the_queue_works_on_a_claimed_run_without_the_file(data_dir, write: Write, own_tasks: Write):
    folder = own_tasks(train=[{"task_id": "t", "number": 1}])
    environment = {"environment": {"type": EVEN}, "num_generations": 2, "max_new_tokens": 4, "max_steps": 1}
    base_model = yaml.safe_load(write().read_text())["model"]["name"]
    agent = Agent.objects.create(name="asker", base_model=base_model)
    options = runs.RunOptions(data=DataOptions(), dataset_dir=str(folder), eval_split="")
    config = agent.training_config("agent").with_overrides(environment)
    run = runs.create(agent, method_name="agent", config=config, options=options, by=Owner.OPERATOR)
    run.claim()
    call_command("train_agent", "--run", str(run.pk), "--attempt", str(run.attempt), verbosity=0)
    run.refresh_from_db()
    assert (run.state, run.version.name, run.episodes.count()) == (State.SUCCEEDED, "tasks-v1", 2)


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_to_the_same_losses_and_counts_each_episode_once(
    site: Site, prepared_site: Site, tmp_path: Path, write: Write, own_tasks: Write
):
    tasks = [{"task_id": f"t{number}", "number": number} for number in range(6)]
    data = {"dataset_dir": str(own_tasks(train=tasks, eval=[{"task_id": "h", "number": 9}]))}
    training = {"num_iters": 6, "lr": 1e-2, "save_steps": 2, "lora_r": 2}
    sections = {"env": {"type": EVEN}, "data": data, "train": training, "eval": {"eval_interval": 2}}
    path = write("even.yaml", policy={"max_new_tokens": 8}, **sections)
    whole = prepared_site.copy(tmp_path / "whole")
    assert whole.json("train_agent", "--config", str(path))["version"] == "tasks-v1"
    process = site.fork("train_agent", "--config", str(path))
    site.wait_for("SELECT step FROM rl_trainingrun WHERE step >= 3")
    kill_session(process)
    site.run("train_agent", "--agent", "even", "--resume")
    assert site.query("SELECT state, attempt FROM rl_trainingrun") == [("succeeded", 2)]
    points = 'SELECT step, "values" FROM rl_metricpoint WHERE step > 0 ORDER BY step'
    assert site.query(points) == whole.query(points)
    assert any(json.loads(values)["grad_norm"] for _, values in site.query(points))
    told = "SELECT split, step, task_id, sample, reward, turns FROM rl_episode ORDER BY split, step, task_id, sample"
    assert site.query(told) == whole.query(told)
    assert len(site.query(told)) == 6 * 4 + 4
