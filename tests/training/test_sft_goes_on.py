"""An imitation that was stopped goes on to the same adapter; what it teaches holds for questions that it has not seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from rl.base.errors import Interrupted
from rl.base.records import TrainingResult, silent
from rl.lm import checkpoints
from rl.training import sft
from tests.training.conftest import Listener, Row, job, polite_rows, same_weights, train_until_killed
from tests.training.test_mpo import pair

pytestmark = pytest.mark.learn


@pytest.fixture(scope="module")
def uninterrupted_run(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainingResult:
    return sft.train(job(tiny_base, tmp_path_factory.mktemp("whole"), accepted_rows()), silent)


def accepted_rows(count: int = 12) -> list[Row]:
    return [pair(row) for row in polite_rows(count)]


def test_accepted_answers_to_new_questions_become_likelier(tiny_base: Path, tmp_path: Path) -> None:
    from rl.evaluation.torch.scoring import score_versions

    result = sft.train(job(tiny_base, tmp_path, accepted_rows(48), epochs=4.0), silent)
    adapters = {"base": None, "tuned": result.weights_dir}
    scores = score_versions(str(tiny_base), adapters, polite_rows(60)[48:], max_length=128, report=silent)
    gains = [new.chosen_logp - old.chosen_logp for new, old in zip(scores["tuned"], scores["base"], strict=True)]
    assert min(gains) > 1, "each question's good answer gained at least a nat"


def test_an_interrupted_training_resumes_to_the_same_adapter(
    tiny_base: Path, tmp_path: Path, uninterrupted_run: TrainingResult
) -> None:
    with pytest.raises(Interrupted, match="stopped by a test"):
        sft.train(job(tiny_base, tmp_path, accepted_rows()), Listener(stop_at=2))
    assert checkpoints.newest_complete(tmp_path / "run") == tmp_path / "run" / "checkpoint-2"
    resumed = sft.train(job(tiny_base, tmp_path, accepted_rows(), resume=True), silent)
    assert same_weights(resumed, uninterrupted_run)


def test_a_killed_training_resumes_to_the_same_adapter(
    tiny_base: Path, tmp_path: Path, uninterrupted_run: TrainingResult
) -> None:
    train_until_killed(sft.train, job(tiny_base, tmp_path, accepted_rows(), save_steps=2))
    resumed = sft.train(job(tiny_base, tmp_path, accepted_rows(), resume=True, save_steps=2), silent)
    assert same_weights(resumed, uninterrupted_run)
