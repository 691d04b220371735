"""When a training is stopped because its numbers say that it is lost."""

import math
from pathlib import Path

import pytest
from transformers import Trainer

from rl.base.errors import TrainingFailed
from rl.base.records import silent
from rl.config import METHODS, config_class
from rl.lm import checkpoints
from rl.training import kto
from rl.training.callbacks import require_healthy
from tests.training.conftest import job
from tests.training.test_kto import labelled_rows

pytestmark = pytest.mark.learn


@pytest.mark.parametrize("name", ["loss", "grad_norm", "kl"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_stops_the_training(name: str, value: float):
    with pytest.raises(TrainingFailed, match=f"the {name} became .* at step 7.*the last checkpoint is from before"):
        require_healthy({"loss": 1.0, name: value}, 7, 1000)


def test_a_training_that_goes_well_goes_on():
    require_healthy({"loss": 0.1, "kl": 999.0}, 7, 1000)
    require_healthy({}, 7, 1000)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_bound_of_its_divergence(method: str):
    most = config_class(method).MOST_KL
    require_healthy({"kl": most}, 1, most)
    with pytest.raises(TrainingFailed, match=r"KL divergence from the base model became .* at step 1, more than"):
        require_healthy({"kl": most * 1.1}, 1, most)


def test_an_exploding_divergence_stops_kto_and_keeps_the_checkpoint_before_it(
    tiny_base: Path, tmp_path: Path, monkeypatch
):
    logged = Trainer.log

    def log(self, logs, *arguments, **options):
        if "loss" in logs and self.state.global_step == 4:
            logs = {**logs, "kl": 5000.0}
        return logged(self, logs, *arguments, **options)

    monkeypatch.setattr(Trainer, "log", log)
    with pytest.raises(TrainingFailed, match="became 5,000 at step 4, more than 1,000: lower learning_rate"):
        kto.train(job(tiny_base, tmp_path, labelled_rows(), save_steps=2), silent)
    kept = checkpoints.newest_complete(tmp_path / "run")
    assert kept is not None
    assert kept.name == "checkpoint-2"
