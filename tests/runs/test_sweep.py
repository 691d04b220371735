"""Three rates, tried on a part of the training rows."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import Interrupted, NotEnoughData, UsageError
from rl.base.records import TrainingResult
from rl.config import DPOConfig, TrainingConfig
from rl.config.training_job import TrainingJob
from rl.runs.sweep import Trial, best_of, describe_sweep, rates, swept, trial_steps
from rl.training import dpo, kto
from tests.training.conftest import Listener, job, message, polite_rows

pytestmark = pytest.mark.learn

STEPS: dict[str, Any] = {"epochs": 1.0, "learning_rate": 1e-3, "lora_dropout": 0.0}
"""Forty rows, four a step: 10 steps, and trials of 4 where so few are allowed."""


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rl.runs.sweep.FEWEST_STEPS", 4)


def labelled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "prompt": row["prompt"],
            "prompt_key": row["prompt_key"],
            "completion": row[side],
            "label": side == "chosen",
        }
        for row in rows
        for side in ("chosen", "rejected")
    ]


def test_the_rate_that_does_best_on_rows_aside_is_taken(tiny_base: Path, tmp_path: Path, short: None):
    listener, tried = Listener(), []

    def train(trial: TrainingJob, report: Any) -> TrainingResult:
        rows = trial.train_rows.read_text().splitlines()
        tried.append((trial.config.learning_rate, trial.config.max_steps, len(rows)))
        return dpo.train(trial, report)

    asked = job(tiny_base, tmp_path, polite_rows(40), **STEPS)
    config = swept(train, asked, listener, "dpo")
    assert [(rate, steps) for rate, steps, _ in tried] == [(5e-4, 4), (1e-3, 4), (2e-3, 4)]
    assert all(25 <= rows < 40 for *_, rows in tried)
    assert config == DPOConfig(**{**asked.config.as_dict(), "learning_rate": 2e-3})
    document = json.loads((asked.output_dir / "sweep.json").read_text())
    losses = [trial["loss"] for trial in document["trials"]]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] < math.log(2)
    assert not (asked.output_dir / "sweep").exists()
    assert not listener.losses, "a trial's figures are not the run's"
    assert "takes 2e-3" in listener.log
    assert {"name": "sweep 5e-4: training"} in [values for event, values in listener.events if event == "stage"]


def test_a_sweep_that_was_stopped_goes_on_with_the_rates_that_are_left(tiny_base: Path, tmp_path: Path, short: None):
    tried: list[float] = []

    def train(trial: TrainingJob, report: Any) -> TrainingResult:
        tried.append(trial.config.learning_rate)
        if len(tried) == 2:
            raise Interrupted("enough")
        return dpo.train(trial, report)

    asked = job(tiny_base, tmp_path, polite_rows(40), **STEPS)
    with pytest.raises(Interrupted):
        swept(train, asked, Listener(), "dpo")
    config = swept(train, asked, Listener(), "dpo")
    assert tried == [5e-4, 1e-3, 1e-3, 2e-3]
    again = TrainingJob(asked.train_rows, asked.base_model, config, asked.output_dir)
    assert swept(train, again, Listener(), "dpo") == config
    assert len(tried) == 4, "what is settled is not tried again"


def test_labelled_answers_can_be_swept_too(tiny_base: Path, tmp_path: Path, short: None):
    asked = job(tiny_base, tmp_path, labelled(polite_rows(20)), **STEPS)
    assert swept(kto.train, asked, Listener(), "kto").learning_rate in rates(asked.config)


def test_a_cancel_reaches_the_trial(tiny_base: Path, tmp_path: Path, short: None):
    def stop(event: str, values: dict[str, Any]) -> None:
        if event == "step" and values["total_steps"] == 4 and values["step"] == 3:
            raise Interrupted("cancelled")

    asked = job(tiny_base, tmp_path, polite_rows(40), **STEPS)
    with pytest.raises(Interrupted, match="cancelled"):
        swept(dpo.train, asked, stop, "dpo")


def test_what_is_far_from_the_base_model_is_not_taken():
    near, far, lost = Trial(1e-4, 0.6, 0.7, 0.1), Trial(2e-4, 0.1, 1.0, 0.9), Trial(5e-5, math.nan, 0.5, None)
    assert best_of([near, far, lost]) == near
    assert best_of([far, lost]) == lost, "the smallest rate, where none stays near"
    assert best_of([Trial(2e-4, 0.6, 0.7, 0.1), near]) == near, "the smaller of two that do as well"


@pytest.mark.parametrize(
    ("rows", "epochs", "why"),
    [(29, 10.0, "needs 30 rows to train on, and there are 29"), (40, 1.0, "60 steps to choose the rate of 10")],
)
def test_a_sweep_that_is_not_cheap_is_refused(rows: int, epochs: float, why: str):
    config = TrainingConfig(batch_size=4, gradient_accumulation=1, epochs=epochs)
    with pytest.raises(UsageError, match=why):
        describe_sweep(config, rows)


def test_a_trial_takes_a_third_of_the_steps():
    config = TrainingConfig(batch_size=4, gradient_accumulation=1, epochs=9.0, learning_rate=2e-4)
    assert trial_steps(config, 40) == 30
    assert describe_sweep(config, 40).startswith("30 steps each at 1e-4, 2e-4, 4e-4")


def test_rows_of_one_prompt_cannot_be_set_aside(tiny_base: Path, tmp_path: Path, short: None):
    rows = [{**row, "prompt": [message("user", "The same?")], "prompt_key": "same"} for row in polite_rows(40)]
    with pytest.raises(NotEnoughData, match="these are too few"):
        swept(dpo.train, job(tiny_base, tmp_path, rows, **STEPS), Listener(), "dpo")
