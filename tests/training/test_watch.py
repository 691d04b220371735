"""A run looks at its own answers on the way, and goes back to the last good weights before it breaks the model."""

import re
from pathlib import Path

import pytest
from safetensors.torch import load_file
from transformers import Trainer

from rl.base.errors import TrainingFailed
from rl.training import dpo
from tests.training.conftest import Listener, job, polite_rows, weights

pytestmark = pytest.mark.learn

STEPS = {"max_steps": 20, "save_steps": 10, "learning_rate": 1e-3, "warmup_ratio": 1.0}
"""The rate grows to the end, and the divergence with it."""


@pytest.fixture(scope="module")
def watched(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    """Step to divergence, of a run that nothing stops."""
    listener = Listener()
    dpo.train(job(tiny_base, tmp_path_factory.mktemp("whole"), most_kl=1000, **STEPS), listener)
    looks = re.findall(r"step (\d+): answers of \d+ words, \d+ before, ([\d.]+) nats a token", listener.log)
    return {int(step): float(kl) for step, kl in looks}


def test_the_log_says_how_far_the_answers_have_moved(watched: dict[int, float]):
    assert list(watched) == [10, 20]
    assert 0 < watched[10] < watched[20]


def test_a_run_that_moves_too_far_ends_with_the_weights_of_the_look_before(
    tiny_base: Path, tmp_path: Path, watched: dict[int, float]
):
    between = (watched[10] + watched[20]) / 2
    listener = Listener()
    result = dpo.train(job(tiny_base, tmp_path, most_kl=between, **STEPS), listener)
    assert "stopped at step 20, the weights of step 10 are kept: the answers are" in listener.log
    kept = load_file(tmp_path / "run" / "checkpoint-10" / "adapter_model.safetensors")
    assert {name: value.tolist() for name, value in weights(result).items()} == {
        name: value.tolist() for name, value in kept.items()
    }


def test_a_run_that_breaks_the_model_at_once_fails_and_says_what_to_do(tiny_base: Path, tmp_path: Path):
    with pytest.raises(TrainingFailed, match="the model broke within the first 10 steps: .*; lower learning_rate"):
        dpo.train(job(tiny_base, tmp_path, most_kl=1e-6, **STEPS), Listener())


def test_nobody_looks_where_the_limit_is_off(tiny_base: Path, tmp_path: Path):
    listener = Listener()
    dpo.train(job(tiny_base, tmp_path, polite_rows(4), most_kl=0), listener)
    assert "nats a token" not in listener.log


def test_a_run_whose_chosen_answers_collapse_ends_with_the_weights_of_the_look_before(
    tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    logged = Trainer.log

    def log(self, logs, *arguments, **options):
        if "loss" in logs and self.state.global_step > 10:
            logs = {**logs, "rewards/chosen": -60 * self.args.beta}
        return logged(self, logs, *arguments, **options)

    monkeypatch.setattr(Trainer, "log", log)
    listener = Listener()
    dpo.train(job(tiny_base, tmp_path, most_kl=1000, **STEPS), listener)
    reason = r"the weights of step 10 are kept: chosen answers are 5\d nats less likely than under the base model"
    assert re.search(reason, listener.log)
