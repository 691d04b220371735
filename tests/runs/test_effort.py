"""One dial for how long a run may take: what it chooses by the forecast, and what it leaves alone."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import UsageError
from rl.dataset_builder import DataOptions
from rl.models import Agent
from rl.runs import effort
from rl.runs.effort import EffortPlan, choose_preset, plan_effort
from rl.runs.run import RunOptions
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate, rate_prompts

pytestmark = pytest.mark.django_db
SHAPE = {"hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9, "vocab_size": 49152}


@pytest.fixture
def base_model(tmp_path: Path) -> str:
    """A folder that tells of a model's size; nothing is loaded from it."""
    folder = tmp_path / "base-135m"
    folder.mkdir()
    for name, text in (("config.json", json.dumps(SHAPE)), ("model.safetensors", ""), ("tokenizer.model", "")):
        (folder / name).write_text(text)
    return str(folder)


@pytest.fixture
def routing(data_dir: Path, base_model: str) -> Agent:
    """A job with two right answers, and enough of them for half to be more than what is tested else."""
    agent = Agent.objects.create(name="routing", base_model=base_model, preset="cpu")
    for number in range(24):
        question = f"{'Money' if number % 2 else 'Card'} question {number}?"
        rate(make_trace(agent, question, "cash" if number % 2 else "cards"), 1)
    return agent


def planned(agent: Agent, how: str, given: Mapping[str, Any] | None = None, val_split: float = 0.2) -> EffortPlan:
    chosen = choose_preset(agent, "mpo", effort=how).config.with_overrides(given or {})
    options = RunOptions(data=DataOptions(val_split=val_split, min_samples=4))
    return plan_effort(agent, chosen, options, "mpo", how)


def test_minutes_is_the_preset_auto_whatever_the_agents_own_is(routing: Agent) -> None:
    made = planned(routing, "minutes")
    assert made.config == choose_preset(routing, "mpo", preset="auto").config
    assert "epochs" in made.config.automatic
    assert made.options.data == DataOptions(min_samples=4)
    assert made.plan.effort.startswith("minutes: as the preset auto chooses; about ")


def test_now_changes_nothing_where_a_minute_is_enough(routing: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "SECONDS_NOW", math.inf)
    assert planned(routing, "now")[:2] == planned(routing, "minutes")[:2]


def test_now_takes_one_thing_after_the_other_until_the_forecast_fits(
    routing: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = planned(routing, "minutes").plan
    assert usual.estimate is not None
    monkeypatch.setattr(effort, "SECONDS_NOW", usual.estimate.seconds - 1e-6)
    made = planned(routing, "now")
    assert (made.options.data.val_split, made.config.automatic) == (0.05, planned(routing, "minutes").config.automatic)
    assert made.plan.effort.startswith("now: tested on few prompts; about ")
    monkeypatch.setattr(effort, "SECONDS_NOW", 0)
    least = planned(routing, "now")
    assert least.options.data.val_split == 0
    assert least.config.epochs == round(usual.config.epochs * 2 / 3)
    assert "train_layers" in least.config.automatic
    assert "the gate cannot tell" in least.plan.effort
    assert "no more is left out" in least.plan.effort


def test_where_the_model_is_not_here_yet_now_guesses_and_is_tested_all_the_same(routing: Agent) -> None:
    (Path(routing.base_model) / "config.json").write_text("{}")
    made = planned(routing, "now")
    assert (made.options.data.val_split, made.config.epochs > 1, made.plan.estimate) == (0.05, True, None)
    assert made.plan.effort.endswith("how long that takes is not known, since the model is not here yet")


def test_what_was_said_beside_the_effort_stays(routing: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "SECONDS_NOW", 0)
    made = planned(routing, "now", {"epochs": 9, "train_layers": 12}, val_split=0.3)
    assert (made.config.epochs, made.config.train_layers, made.options.data.val_split) == (9, 12, 0.3)


def test_hours_tests_right_answers_on_half_of_the_prompts_where_that_is_more(
    routing: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = planned(routing, "hours")
    assert (made.options, made.plan.tested) == (planned(routing, "minutes").options, 24)
    monkeypatch.setattr("rl.dataset_builder.frozen.folding.LEAST_TESTED", 8)
    made = planned(routing, "hours")
    assert (made.options.data.val_split, made.options.sweep, made.plan.tested) == (0.5, False, 12)
    assert made.plan.effort.startswith("hours: tested on 12 prompts and not 8; about ")


def test_hours_tries_rates_where_answers_are_free_and_there_are_rows_enough(data_dir: Path, base_model: str) -> None:
    agent = Agent.objects.create(name="chat", base_model=base_model)
    rate_prompts(agent, 20)
    assert not planned(agent, "hours").options.sweep
    rate_prompts(agent, 30, start=20)
    made = planned(agent, "hours")
    assert made.options.sweep
    assert made.plan.effort.startswith("hours: three rates are tried; about ")
    assert not planned(agent, "hours", {"learning_rate": 1e-4}).options.sweep


def test_a_preset_beside_it_and_an_unknown_one_are_refused(routing: Agent) -> None:
    with pytest.raises(UsageError, match="the effort now chooses what the preset cpu would set: name one of the two"):
        choose_preset(routing, "mpo", preset="cpu", effort="now")
    with pytest.raises(UsageError, match="there is no effort days; now, minutes, hours are there"):
        choose_preset(routing, "mpo", effort="days")


def test_without_one_nothing_is_said(routing: Agent) -> None:
    plan = planned(routing, "").plan
    assert (plan.effort, "effort" in plan.tables[list(plan.tables)[-1]]) == ("", False)
