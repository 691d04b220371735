"""The losses of ``--loss-type``, each for two steps."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from rl.base.records import silent
from rl.config.method_configs import PREFERENCE_LOSSES
from rl.training import dpo
from tests.training.conftest import Listener, job, polite_rows, weights

pytestmark = pytest.mark.learn

TWO_STEPS: dict[str, Any] = {"epochs": 1.0, "lora_dropout": 0.0}


def two_losses(base: Path, folder: Path, **settings: Any) -> list[float]:
    listener = Listener()
    result = dpo.train(job(base, folder, polite_rows(8), **{**TWO_STEPS, **settings}), listener)
    assert all(tensor.isfinite().all() for tensor in weights(result).values())
    return list(listener.losses.values())


AT_THE_START = {
    "sigmoid": math.log(2),
    "hinge": 1.0,
    "ipo": 25.0,
    "robust": math.log(2),
    "nca_pair": 2 * math.log(2),
    "bco_pair": 2 * math.log(2),
    "sppo_hard": 50.0,
    "aot": math.log(2),
    "aot_unpaired": math.log(2),
    "apo_zero": 1.0,
    "apo_down": 1.0,
    "sigmoid_norm": math.log(2),
}
"""Losses of a policy that is its reference still, for beta 0.1: each answer's ratio is 1."""


@pytest.mark.parametrize("loss", PREFERENCE_LOSSES)
def test_every_loss_trains(tiny_base: Path, tmp_path: Path, loss: str):
    first, second = two_losses(tiny_base, tmp_path, preference_loss=loss)
    assert first == pytest.approx(AT_THE_START.get(loss, first), rel=1e-3)
    assert math.isfinite(second)


def test_a_mix_is_the_sum_with_its_weights(tiny_base: Path, tmp_path: Path):
    imitation, _ = two_losses(tiny_base, tmp_path / "sft", preference_loss="sft")
    mixed, _ = two_losses(tiny_base, tmp_path / "mixed", preference_loss="sigmoid:2,sft:0.5")
    assert mixed == pytest.approx(2 * math.log(2) + 0.5 * imitation, rel=1e-3)


@pytest.mark.parametrize("loss", ["robust", "sigmoid:1,sft:0.2", "aot_unpaired"])
def test_reference_scores_that_are_computed_once_give_the_same(
    tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: str
):
    once = two_losses(tiny_base, tmp_path / "once", preference_loss=loss, epochs=2.0)
    monkeypatch.setattr(dpo._Trainer, "use_reference", lambda *args: None)
    every_time = two_losses(tiny_base, tmp_path / "every", preference_loss=loss, epochs=2.0)
    assert once == pytest.approx(every_time, abs=1e-5)


def test_label_smoothing_changes_what_robust_learns_and_nothing_where_it_is_zero(tiny_base: Path, tmp_path: Path):
    plain = dpo.train(job(tiny_base, tmp_path / "plain", **TWO_STEPS), silent).loss_history
    none, some = (
        dpo.train(
            job(tiny_base, tmp_path / str(share), preference_loss="robust", label_smoothing=share, **TWO_STEPS), silent
        ).loss_history
        for share in (0.0, 0.3)
    )
    assert none == pytest.approx(plain, abs=1e-6)
    assert some[-1] != pytest.approx(plain[-1], abs=1e-4)
