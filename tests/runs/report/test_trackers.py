"""Experiment trackers hear what a run's page shows, and cannot break a run that has begun."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from accelerate.tracking import LOGGER_TYPE_TO_CLASS, GeneralTracker

from rl.base.errors import TrainingFailed
from rl.runs.report import trackers
from rl.training import dpo
from tests.training.conftest import job

pytestmark = pytest.mark.learn


class Book(GeneralTracker):
    """A tracker that keeps all it is told."""

    name = "mlflow"
    requires_logging_directory = False
    kept: list[Book]

    def __init__(self, **arguments: Any) -> None:
        super().__init__(_blank=True)
        self.arguments, self.told, self.settings, self.ended = arguments, {}, {}, False
        Book.kept.append(self)

    def start(self) -> None:
        pass

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        self.settings = values

    def log(self, values: dict[str, float], step: int | None = None, **kwargs: Any) -> None:
        assert not self.told.get(step, {}).keys() & values.keys(), "each metric of a step once"
        self.told[step] = {**self.told.get(step, {}), **values}

    def finish(self) -> None:
        self.ended = True


@pytest.fixture
def book(monkeypatch) -> type[Book]:
    Book.kept = []
    monkeypatch.setitem(LOGGER_TYPE_TO_CLASS, "mlflow", Book)
    return Book


def step(number: int, **metrics: float) -> dict[str, Any]:
    return {"step": number, "total_steps": 9, "metrics": metrics}


def test_a_training_is_followed_step_by_step(tiny_base, tmp_path, book):
    work = job(tiny_base, tmp_path)
    with closing(trackers.Trackers(["mlflow"], tmp_path, {"name": "support-dpo-4"}, work.config.as_dict())) as tell:
        result = dpo.train(work, tell)
    (kept,) = book.kept
    assert list(kept.told) == [1, 2, 3, 4, 5, 6]
    assert [told["loss"] for told in kept.told.values()] == result.loss_history
    assert kept.settings["learning_rate"] == 1e-3
    assert kept.arguments == {"experiment_name": "ratchet", "run_name": "support-dpo-4"}
    assert kept.ended


def test_a_step_is_told_once_and_without_what_is_not_finite(tmp_path, book):
    with closing(trackers.Trackers(["mlflow"], tmp_path, {"name": "t"}, {})) as tell:
        tell("step", step(0))
        tell("step", step(1, loss=1.0, kl=float("nan")))
        tell("step", step(1, loss=1.0))
        tell("log", {"text": "x"})
    assert book.kept[0].told == {1: {"loss": 1.0}}


def test_what_is_measured_behind_a_step_is_told_beside_it(tmp_path, book):
    with closing(trackers.Trackers(["mlflow"], tmp_path, {"name": "support-dpo-4"}, {})) as tell:
        tell("step", step(1, loss=0.5))
        tell("step", step(1, loss=0.5, held_out_loss=0.7))
        tell("step", step(1, loss=0.5, held_out_loss=0.7))
        tell("step", step(2, loss=0.4))
    assert book.kept[0].told == {1: {"loss": 0.5, "held_out_loss": 0.7}, 2: {"loss": 0.4}}


def test_a_tracker_that_cannot_start_fails_the_run_at_its_first_step(tmp_path, book, monkeypatch):
    def refuse(self):
        raise ConnectionError("no server at http://localhost:5000")

    monkeypatch.setattr(Book, "start", refuse)
    with (
        closing(trackers.Trackers(["mlflow"], tmp_path, {"name": "t"}, {})) as tell,
        pytest.raises(TrainingFailed, match="no server"),
    ):
        tell("step", step(1, loss=1.0))


def test_a_tracker_that_breaks_on_the_way_is_let_go(tmp_path, book, monkeypatch):
    with closing(trackers.Trackers(["mlflow"], tmp_path, {"name": "t"}, {})) as tell:
        tell("step", step(1, loss=1.0))
        monkeypatch.setattr(Book, "log", lambda *a, **k: 1 / 0)
        tell("step", step(2, loss=1.0))
        tell("step", step(3, loss=1.0))
    assert list(book.kept[0].told) == [1]


def test_tensorboard_itself_follows_a_training_with_all_of_its_settings(tiny_base, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    work = job(tiny_base, tmp_path)
    settings = {**work.config.as_dict(), "environment": {"type": "search"}, "origins": ["operator"], "seed": None}
    with closing(trackers.Trackers(["tensorboard"], tmp_path, {"name": "support-dpo-4"}, settings)) as tell:
        result = dpo.train(work, tell)
    events = EventAccumulator(str(tmp_path / "tensorboard" / "support-dpo-4")).Reload()
    assert [event.value for event in events.Scalars("loss")] == pytest.approx(result.loss_history)


def test_no_names_follow_nothing(tmp_path, book):
    with closing(trackers.Trackers([], tmp_path, {"name": "t"}, {})) as tell:
        tell("step", step(1, loss=1.0))
    assert book.kept == []


def test_a_run_is_listed_under_the_project_name_and_tags_that_were_asked_for(tmp_path):
    listed = {"project": "mail", "name": "first try", "tags": ["small"]}
    told = trackers.Trackers([], tmp_path, listed, {})
    assert told._arguments("mlflow") == {"experiment_name": "mail", "run_name": "first try"}
    assert told._arguments("trackio") == {"run_name": "mail", "name": "first try"}
    assert told._arguments("wandb") == {"run_name": "mail", "name": "first try", "tags": ["small"]}
