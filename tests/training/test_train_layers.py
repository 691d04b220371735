"""Adapters on the top layers only: what the layers below give is computed once a text, and nothing else changes."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from rl.base.errors import Interrupted, UsageError
from rl.base.records import TrainingResult
from rl.config import TrainingConfig, config_class
from rl.training import dpo, fitting, kto, reward_model
from tests.training.conftest import SMALL, Listener, Row, job, mixed_rows, polite_rows, same_weights, weights


def labelled_rows() -> list[Row]:
    return [
        {
            "prompt": pair["prompt"],
            "completion": pair[name],
            "label": name == "chosen",
            "prompt_key": pair["prompt_key"],
        }
        for pair in polite_rows()
        for name in ("chosen", "rejected")
    ]


METHODS = {"dpo": (dpo, polite_rows), "kto": (kto, labelled_rows), "reward_model": (reward_model, mixed_rows)}


def train(
    name: str, base: Path, folder: Path, *, stop_at: int | None = None, resume: bool = False
) -> tuple[TrainingResult, Listener]:
    module, rows = METHODS[name]
    config = config_class(name)().with_overrides({**SMALL, "train_layers": 1})
    listener = Listener(stop_at)
    return module.train(replace(job(base, folder, rows=rows(), resume=resume), config=config), listener), listener


@pytest.mark.parametrize("name", METHODS)
def test_the_losses_are_those_of_the_plain_path(
    name: str, tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    result, kept = train(name, tiny_base, tmp_path / "kept")
    assert {key.split("layers.")[1][0] for key in weights(result) if "layers." in key} == {"1"}
    assert "the lowest 1 layers stay as they are and run once for each text" in kept.log
    monkeypatch.setattr(fitting, "kept_trunk", lambda *arguments: nullcontext())
    _, plain = train(name, tiny_base, tmp_path / "plain")
    assert list(kept.losses.values()) == pytest.approx(list(plain.losses.values()), abs=1e-5)
    assert len(set(kept.losses.values())) > 1


def test_a_resumed_run_ends_with_the_same_adapter(tiny_base: Path, tmp_path: Path):
    whole, _ = train("dpo", tiny_base, tmp_path / "whole")
    with pytest.raises(Interrupted):
        train("dpo", tiny_base, tmp_path / "parts", stop_at=2)
    resumed, _ = train("dpo", tiny_base, tmp_path / "parts", resume=True)
    assert same_weights(resumed, whole)


def test_more_layers_than_there_are_is_all_of_them(tiny_base: Path, tmp_path: Path):
    listener = Listener()
    dpo.train(job(tiny_base, tmp_path, train_layers=30), listener)
    assert "run once for each text" not in listener.log


def test_full_training_has_no_layers_to_leave_out():
    with pytest.raises(UsageError, match="full trains every layer"):
        TrainingConfig(full=True, train_layers=2)
