"""Adapters on the top layers only: what the layers below give is computed once a text, and nothing else changes."""

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from rl.base.errors import Interrupted, UsageError
from rl.base.records import TrainingResult, silent
from rl.config import TrainingConfig, config_class
from rl.evaluation.torch import scoring
from rl.lm import loading
from rl.lm.log_probs import answer_log_probs
from rl.lm.trunk import StateFile, layers_of
from rl.training import dpo, fitting, kto, mpo, reward_model
from tests.training import test_kto, test_mpo
from tests.training.conftest import SMALL, Listener, job, mixed_rows, polite_rows, same_weights, weights

pytestmark = pytest.mark.learn


METHODS = {
    "dpo": (dpo, polite_rows),
    "kto": (kto, test_kto.labelled_rows),
    "mpo": (mpo, test_mpo.mixed_rows),
    "reward_model": (reward_model, mixed_rows),
}


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


def test_scores_of_two_versions_share_the_layers_below_the_adapter(
    tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    result, _ = train("dpo", tiny_base, tmp_path)
    adapters, passes = {"base": None, "new": result.weights_dir}, Counter[str]()
    attention = layers_of(model := loading.load_base(str(tiny_base), "fp32"))[0].self_attn
    attention.register_forward_hook(lambda *_: passes.update(["lowest"]))
    monkeypatch.setattr(scoring.loading, "load_base", lambda *_: model)
    monkeypatch.setattr(scoring, "kept_log_probs", answer_log_probs)  # nothing is read that was scored before

    def score() -> dict[str, list[float]]:
        scores = scoring.score_versions(str(tiny_base), adapters, polite_rows(), max_length=128, report=silent)
        return {name: [score.margin for score in of_name] for name, of_name in scores.items()}

    score()  # which checks first whether beginnings can be shared, once for a model
    passes.clear()
    shared, once = score(), passes.total()
    monkeypatch.setattr(scoring, "kept_trunk", lambda *arguments: nullcontext())
    plain = score()
    assert shared["new"] == pytest.approx(plain["new"], abs=1e-4)
    assert shared["base"] == pytest.approx(plain["base"], abs=1e-4)
    assert shared["new"] != pytest.approx(shared["base"], abs=1e-2)
    assert passes.total() - once == 2 * once, "the base model's pass served the new version too"


def test_a_resumed_run_ends_with_the_same_adapter(tiny_base: Path, tmp_path: Path):
    whole, _ = train("dpo", tiny_base, tmp_path / "whole")
    with pytest.raises(Interrupted):
        train("dpo", tiny_base, tmp_path / "parts", stop_at=2)
    assert [*(tmp_path / "parts").rglob("kept-states-*")]
    resumed, _ = train("dpo", tiny_base, tmp_path / "parts", resume=True)
    assert same_weights(resumed, whole)
    assert not [*(tmp_path / "parts").rglob("kept-states-*")]


@pytest.mark.parametrize("resume", [True, False], ids=["resumed", "started anew"])
def test_a_resumed_run_runs_no_lower_layer_again_for_a_text(
    resume: bool, tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(Interrupted):
        train("dpo", tiny_base, tmp_path, stop_at=2)
    computed: list[bytes] = []
    write = StateFile.write
    monkeypatch.setattr(StateFile, "write", lambda file, text, *a: computed.append(text) or write(file, text, *a))
    train("dpo", tiny_base, tmp_path, resume=resume)
    assert bool(computed) != resume


def test_more_layers_than_there_are_is_all_of_them(tiny_base: Path, tmp_path: Path):
    listener = Listener()
    dpo.train(job(tiny_base, tmp_path, train_layers=30), listener)
    assert "run once for each text" not in listener.log


def test_full_training_has_no_layers_to_leave_out():
    with pytest.raises(UsageError, match="full trains every layer"):
        TrainingConfig(full=True, train_layers=2)
