"""What a plan is made of: the shape of the base model, the agent's own texts."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rl.base.errors import UsageError
from rl.config import TrainingConfig
from rl.dataset_builder import DataOptions
from rl.hardware import REPLACED
from rl.lm.base_models import local_folder
from rl.models import Agent
from rl.runs import dry_run as planning
from rl.runs.dry_run import SAMPLE, dry_run, model_shape
from rl.runs.run import RunOptions
from tests.dataset_builder.ratings import rate_prompts, rated
from tests.hardware.machines import LAPTOP

pytestmark = pytest.mark.django_db
LLAMA = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}


def model(folder: Path, config: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_the_shape_of_the_language_model_within_a_larger_one_is_found(tmp_path):
    plain = model_shape(model(tmp_path / "plain", LLAMA))
    assert plain == model_shape(model(tmp_path / "nested", {"text_config": LLAMA, "vision_config": {}}))
    assert (plain.layers, plain.hidden_size, plain.vocab_size) == (2, 64, 100)


@pytest.mark.parametrize("config", [{"d_model": 512}, {}, [], "text"])
def test_a_model_whose_size_is_not_told_has_no_shape(tmp_path, config):
    assert model_shape(model(tmp_path / "other", config)) is None


def test_a_damaged_configuration_is_one_clear_error(tmp_path):
    folder = model(tmp_path / "damaged", {})
    (folder / "config.json").write_text('{"hidden_size": ')
    with pytest.raises(UsageError, match="config.json is not JSON"):
        model_shape(folder)


def test_a_model_that_the_hub_cache_holds_is_found_there(agent: Agent, data_dir, tmp_path, monkeypatch):
    pytest.importorskip("huggingface_hub")
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--owner--name"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc")
    snapshot = model(repository / "snapshots" / "abc", LLAMA)
    assert local_folder("owner/name") == snapshot
    rate_prompts(agent, 3)
    options = RunOptions(data=DataOptions(min_samples=1, val_split=0), base_model="owner/name")
    assert dry_run(agent, TrainingConfig(), options).document["estimate"]["steps"] > 0


def test_a_model_that_is_not_here_has_no_estimate(agent: Agent, data_dir):
    rate_prompts(agent, 3)
    options = RunOptions(data=DataOptions(min_samples=1, val_split=0), base_model="nobody/has-this-model")
    plan = dry_run(agent, TrainingConfig(), options)
    assert plan.document["estimate"] is None


@pytest.mark.parametrize(("runs_bf16", "line"), [(False, REPLACED), (True, "")])
def test_the_plan_says_that_a_slow_cpu_computes_in_float32(agent: Agent, data_dir, monkeypatch, runs_bf16, line):
    rate_prompts(agent, 3)
    machine = replace(LAPTOP, cpu_runs_bf16=runs_bf16)
    monkeypatch.setattr(planning, "detect_hardware", lambda path: machine)
    options = RunOptions(data=DataOptions(min_samples=1, val_split=0), base_model="nobody/has-this-model")
    plan = dry_run(agent, TrainingConfig().with_overrides({"precision": "bf16"}), options)
    (cost,) = [rows for title, rows in plan.tables.items() if title.startswith("Cost")]
    assert (plan.document["precision"], cost.get("precision", "")) == (line, line)


def test_the_sample_of_answers_is_all_that_is_read(agent: Agent, data_dir, tmp_path):
    rate_prompts(agent, 3)
    folder = model(tmp_path / "model", LLAMA)
    (folder / "tokenizer.json").write_text("{}")
    with CaptureQueriesContext(connection) as queries, pytest.raises(Exception):  # noqa: B017  no tokenizer
        planning._characters_per_token(agent, folder)
    assert f"LIMIT {SAMPLE}" in queries[-1]["sql"]


def test_where_answers_are_right_or_wrong_all_rows_are_learned_and_the_trainings_without_a_part_are_counted(
    agent: Agent, data_dir, tmp_path
):
    for number in range(30):
        rated(agent, f"Question {number}?", "cash" if number % 2 else "cards", 1)
    base = model(tmp_path / "model", LLAMA)
    for name in ("model.safetensors", "vocab.json"):
        (base / name).write_bytes(b"")
    options = RunOptions(data=DataOptions(min_samples=1), base_model=str(base))
    document = dry_run(agent, agent.training_config("mpo"), options, "mpo").document
    assert (document["data"]["train_rows"], document["data"]["heldout_rows"]) == (30, 0)
    parts = document["estimate"]["parts"]
    assert parts["answers to prompts not learned"] > parts["steps"]
    assert document["config"]["preferences"] is False
    none = RunOptions(data=DataOptions(min_samples=1, val_split=0), base_model=options.base_model)
    alone = dry_run(agent, agent.training_config("mpo"), none, "mpo").document["estimate"]["parts"]
    assert "answers to prompts not learned" not in alone
