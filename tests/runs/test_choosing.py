"""Names that the operator registered, and where a run's settings came from."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from rl import registered
from rl.base.errors import BadFile, UsageError
from rl.config.authority import Owner
from rl.dataset_builder import DataOptions
from rl.models import Agent, TrainingRun
from rl.runs import choosing
from rl.runs import run as runs
from rl.runs.choosing import TRACKERS, tracker_names

pytestmark = pytest.mark.django_db
SERVER = "http://gpu:8000"
MCP = {"mcp": {"orders": {"command": ["python3", "orders.py"]}}}


@pytest.fixture
def shop(settings: Any, tmp_path: Path) -> Path:
    """An environment, a model and a server, under names."""
    settings.BASE_MODELS = {"small": "owner/small"}
    settings.INFERENCE_SERVERS = {"gpu": SERVER}
    settings.ENVIRONMENTS_DIR = tmp_path / "environments"
    (settings.ENVIRONMENTS_DIR / "tasks").mkdir(parents=True)
    file = settings.ENVIRONMENTS_DIR / "shop.yaml"
    env = {"env": {"type": "code_exec", "max_turns": 3}, "tools": MCP, "data": {"dataset_dir": "tasks"}}
    file.write_text(yaml.safe_dump(env))
    return file


def make(agent: Agent, method: str, chosen: choosing.ChosenConfig, by: Owner = Owner.TRAINER) -> TrainingRun:
    options = chosen.apply_to(runs.RunOptions(data=DataOptions()))
    options = choosing.with_origins(agent, chosen.config, options, by)
    config = json.loads(json.dumps(chosen.config.as_dict()))
    return TrainingRun.objects.create(
        agent=agent, method=method, config=config, options=options.as_dict(), state="failed"
    )


def test_a_chosen_environment_is_written_into_the_run(agent: Agent, shop: Path):
    run = make(agent, "agent", choosing.choose(agent, "agent", {"environment": "shop"}, base_model="small"))
    shop.unlink()
    assert run.config["environment"]["tools"] == MCP
    assert run.config["environment"]["options"] == {"max_turns": 3}
    assert run.options["dataset_dir"] == str(shop.parent / "tasks")
    assert run.options["base_model"] == "owner/small"
    names = {name: run.options["origins"][name] for name in ("environment", "dataset_dir", "base_model")}
    assert names == {"environment": "shop", "dataset_dir": "shop", "base_model": "small"}
    choosing.require_origins(run)


def test_a_name_among_the_overrides_of_an_agent_is_looked_up(agent: Agent, shop: Path):
    agent.training_overrides = {"vllm_server": "gpu", "environment": "shop", "num_generations": 4}
    config = choosing.choose(agent, "grpo").config
    assert (config.as_dict()["vllm_server"], config.as_dict()["num_generations"]) == (SERVER, 4)
    assert choosing.choose(agent, "dpo").options == choosing.choose(agent, "dpo").origins == {}
    settings = choosing.choose(agent, "agent", {"environment": "shop"}).config.as_dict()
    assert (settings["vllm_server"], settings["environment"]["type"]) == (SERVER, "code_exec")


@pytest.mark.parametrize("name", ["environment", "vllm_server"])
def test_a_name_that_is_not_registered_is_told_with_those_that_are(agent: Agent, shop: Path, name: str):
    with pytest.raises(UsageError, match="is registered under the name '../shop'; registered: (shop|gpu)"):
        choosing.choose(agent, "agent", {name: "../shop"})


def test_a_registered_environment_has_no_hyper_parameters(shop: Path):
    shop.write_text("env: {type: code_exec}\ntrain: {lr: 1.0}\n")
    with pytest.raises(BadFile, match="only env, tools and data are read"):
        registered.environment("shop")


def test_a_run_without_origins_is_refused(agent: Agent, shop: Path):
    chosen = choosing.choose(agent, "agent", {"environment": "shop"})
    run = make(agent, "agent", replace(chosen, origins={}))
    with pytest.raises(UsageError, match=f"run {run.pk} has an environment .* --resume {run.pk}, with --config"):
        choosing.require_origins(run)
    choosing.vouch(run, {"environment", "dataset_dir", "seed"})
    run.refresh_from_db()
    assert set(run.options["origins"]) == {"environment", "dataset_dir", "base_model"}
    choosing.require_origins(run)


@pytest.mark.parametrize(
    ("option", "value"), [("reward_model", "/models/x"), ("data_file", "/etc/passwd"), ("accelerate_config", "/x.yaml")]
)
def test_what_only_the_operator_sets_is_noted_as_his(agent: Agent, option: str, value: str):
    chosen = choosing.ChosenConfig(agent.training_config(), {option: value})
    with pytest.raises(UsageError, match=f"has an? {option.replace('_', ' ')} that nobody is known to have set"):
        choosing.require_origins(make(agent, "dpo", chosen))
    run = make(agent, "dpo", chosen, Owner.OPERATOR)
    assert run.options["origins"][option] == "operator"
    choosing.require_origins(run)


def test_the_agents_own_base_model_is_its_own(agent: Agent):
    agent.base_model = "owner/from-before"
    agent.save()
    run = make(agent, "dpo", choosing.choose(agent, "dpo"))
    assert (run.options["base_model"], run.options["origins"]) == ("owner/from-before", {"base_model": "agent"})
    run.options["origins"] = {}
    choosing.require_origins(run)
    run.options["base_model"] = "owner/another"
    with pytest.raises(UsageError, match="has a base model that nobody"):
        choosing.require_origins(run)


def test_nothing_is_followed_by_default():
    assert tracker_names("") == ()


def test_names_may_be_repeated_and_spaced(monkeypatch):
    monkeypatch.setattr(choosing.importlib.util, "find_spec", lambda name: object())
    assert tracker_names("tensorboard, wandb,tensorboard,") == ("tensorboard", "wandb")
    assert tracker_names(",".join(TRACKERS)) == tuple(TRACKERS)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(choosing.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="--report-to mlflow needs the package mlflow: pip install mlflow"):
        tracker_names("mlflow")


def test_tensorboardx_will_do(monkeypatch):
    monkeypatch.setattr(choosing.importlib.util, "find_spec", lambda name: name == "tensorboardX" or None)
    assert tracker_names("tensorboard") == ("tensorboard",)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UsageError, match="'comet'; known: tensorboard, trackio, mlflow, wandb"):
        tracker_names("comet")
