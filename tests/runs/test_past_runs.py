"""What past runs say about the next one."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from datetime import timedelta

import pytest
from django.utils import timezone

from rl.config import TrainingConfig
from rl.dataset_builder import DataOptions
from rl.hardware import TrainingEstimate
from rl.models import Agent, ModelVersion, TrainingRun, TrainingSet
from rl.runs import past_runs
from rl.runs.dry_run import dry_run
from rl.runs.past_runs import experience
from rl.runs.run import RunOptions
from rl.runs.stage_clock import FILE
from tests.dataset_builder.ratings import rate_prompts
from tests.hardware.machines import LAPTOP, SERVER

pytestmark = pytest.mark.django_db
LLAMA = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}


@pytest.fixture
def rows(agent: Agent, data_dir) -> TrainingSet:
    made = TrainingSet.objects.create(
        agent=agent, method="dpo", content_hash="x", train_rows=10, heldout_rows=0, feedback_count=1, val_split=0
    )
    made.directory.mkdir(parents=True)
    said = [{"role": "user", "content": "x" * 30}]
    row = {"prompt": said, "chosen": said, "rejected": [{"role": "assistant", "content": "x" * 10}]}
    (made.directory / "train.jsonl").write_text(json.dumps(row) + "\n")
    return made


@pytest.fixture
def past(agent: Agent, rows: TrainingSet, tmp_path):
    """Makes a run whose steps took so many seconds, and 5 more its start; each one is newer than those before it."""
    base = tmp_path / "model"
    base.mkdir()
    (base / "config.json").write_text(json.dumps(LLAMA))
    (base / "model.safetensors").write_bytes(b"weights")
    (base / "vocab.json").write_text("{}")
    made: list[TrainingRun] = []

    def took(seconds: float, **changes) -> TrainingRun:
        started = timezone.now() + timedelta(hours=len(made))
        base_model = changes.pop("base_model", str(base))
        version = ModelVersion.objects.create(
            agent=agent, name=f"v{len(made)}", base_model=base_model, feedback_count=1
        )
        values = {
            "method": "dpo",
            "state": TrainingRun.State.SUCCEEDED,
            "attempt": 1,
            "config": TrainingConfig().as_dict(),
            "hardware": asdict(LAPTOP),
            "options": RunOptions(data=DataOptions()).as_dict(),
            "training_set": rows,
            "version": version,
            "started_at": started,
            "finished_at": started + timedelta(seconds=seconds),
            **changes,
        }
        made.append(TrainingRun.objects.create(agent=agent, **values))
        made[-1].directory.mkdir(parents=True)
        costs = {"seconds": {"start-up": 5.0, "steps": seconds}, "cpu_seconds": {}, "peak_memory_bytes": 3 * 10**9}
        (made[-1].directory / FILE).write_text(json.dumps(costs))
        return made[-1]

    return took


@pytest.fixture
def learned(tmp_path):
    parts = {"start-up": 10.0, "steps": 10.0, "export": 30.0}
    said = TrainingEstimate(steps=1, seconds=50.0, peak_memory_bytes=2 * 10**9, parts=parts)
    return lambda: experience("dpo", str(tmp_path / "model"), LAPTOP, lambda run: said)


def test_without_runs_nothing_is_learned(agent, learned):
    assert learned() is None


def test_one_run_gives_a_ratio_for_each_part_and_no_error(past, learned):
    past(20)
    assert learned().ratios == {"start-up": 0.5, "steps": 2.0}  # it did not come to an export
    assert (learned().runs, learned().memory_ratio, learned().error) == (1, 1.5, None)


def test_the_error_is_what_the_runs_before_would_have_said(past, learned):
    for seconds in (20, 40, 40):  # after 2.0: 45 s instead of 25; after a median of 3.0: 45 s instead of 35
        past(seconds)
    assert learned().ratios["steps"] == 4.0
    assert learned().error == pytest.approx(((45 / 25) * (45 / 35)) ** 0.5)


def test_only_the_newest_runs_count(past, learned):
    for seconds in (1000, 1000, *[20] * past_runs.RUNS):
        past(seconds)
    assert (learned().runs, learned().ratios["steps"], learned().error) == (past_runs.RUNS, 2.0, 1.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "kto"},
        {"base_model": "/models/larger"},
        {"attempt": 2},
        {"state": TrainingRun.State.FAILED},
        {"version": None},
        {"training_set": None},
        {"hardware": {}},
        {"options": {"num_processes": 2, "data": {}}},
        {"hardware": asdict(SERVER)},
        {"hardware": asdict(replace(LAPTOP, usable_cores=4))},
    ],
)
def test_runs_that_say_nothing_about_this_one_do_not_count(past, learned, changes):
    past(20, **changes)
    assert learned() is None


def test_a_run_whose_folder_was_tidied_up_or_is_damaged_does_not_count(past, learned):
    shutil.rmtree(past(20).directory)
    (past(20).directory / FILE).write_text('{"seconds": ')
    assert learned() is None


def test_a_dry_run_says_what_it_learned(agent, past, monkeypatch, tmp_path):
    monkeypatch.setattr("rl.runs.dry_run.detect_hardware", lambda path: LAPTOP)
    rate_prompts(agent, 3)
    options = RunOptions(data=DataOptions(min_samples=1, val_split=0), base_model=str(tmp_path / "model"))
    before = dry_run(agent, TrainingConfig(), options)
    assert before.document["experience"] is None
    assert "Cost here (a guess by the kind of machine, right within a factor of 3)" in before.tables
    past(100)
    past(100)
    after = dry_run(agent, TrainingConfig(), options)
    ratios, was, now = after.document["experience"]["ratios"], before.estimate.parts, after.estimate.parts
    assert now["steps"] == pytest.approx(was["steps"] * ratios["steps"])
    assert now["start-up"] == pytest.approx(5.0, rel=0.01)
    assert now["loading the model"] == was["loading the model"]
    assert after.document["estimate"]["seconds"] == pytest.approx(sum(now.values()))
    title = list(after.tables)[-1]
    assert "learned from the last 2 runs on this machine, which were off by a factor of 1.0" in title
    assert after.tables[title]["  start-up"] == "0.1 minutes"


@pytest.mark.database
def test_the_second_estimate_of_a_like_run_is_what_the_first_took(agent, past, monkeypatch, tmp_path, rows):
    """By the recorded seconds of a run over the same rows."""
    monkeypatch.setattr("rl.runs.dry_run.detect_hardware", lambda path: LAPTOP)
    rate_prompts(agent, 3)
    options = RunOptions(data=DataOptions(min_samples=1, val_split=0), base_model=str(tmp_path / "model"))
    planned = dry_run(agent, TrainingConfig(), options)
    run = past(100)
    took = dict.fromkeys(planned.estimate.parts, 7.0)
    rows.train_rows = planned.survey.train_rows
    rows.save()
    (run.directory / FILE).write_text(
        json.dumps({"seconds": took, "cpu_seconds": took, "peak_memory_bytes": 3 * 10**9})
    )
    second = dry_run(agent, TrainingConfig(), options).estimate
    assert second.seconds == pytest.approx(sum(took.values()), rel=0.25)
    assert second.peak_memory_bytes == pytest.approx(3 * 10**9, rel=0.25)
