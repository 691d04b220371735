from __future__ import annotations

import pytest

from rl.base.errors import UsageError
from rl.runs.report import tracker_names as report_to
from rl.runs.report.tracker_names import TRACKERS, tracker_names


def test_nothing_is_followed_by_default():
    assert tracker_names("") == ()


def test_names_may_be_repeated_and_spaced(monkeypatch):
    monkeypatch.setattr(report_to.importlib.util, "find_spec", lambda name: object())
    assert tracker_names("tensorboard, wandb,tensorboard,") == ("tensorboard", "wandb")
    assert tracker_names(",".join(TRACKERS)) == tuple(TRACKERS)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(report_to.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="--report-to mlflow needs the package mlflow: pip install mlflow"):
        tracker_names("mlflow")


def test_tensorboardx_will_do(monkeypatch):
    monkeypatch.setattr(report_to.importlib.util, "find_spec", lambda name: name == "tensorboardX" or None)
    assert tracker_names("tensorboard") == ("tensorboard",)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UsageError, match="'comet'; known: tensorboard, trackio, mlflow, wandb"):
        tracker_names("comet")
