import json
from pathlib import Path

import pytest

from rl.base.errors import BadFile
from rl.base.records import TrainingResult

RESULT = TrainingResult(
    weights_dir=Path("run/adapter"),
    steps=2,
    final_loss=0.25,
    metrics={"loss": 0.25, "dropped_rows": 0.0},
    seconds=1.5,
    history=({"loss": 0.5, "reward": 0.1, "kl": 0.0}, {"loss": 0.25, "reward": 0.4}),
    changed={"batch_size": 2},
)


def test_a_result_survives_its_file(tmp_path):
    RESULT.save(tmp_path / "result.json")
    assert TrainingResult.load(tmp_path / "result.json") == RESULT


def test_histories_hold_what_was_logged():
    assert (RESULT.loss_history, RESULT.reward_history, RESULT.kl_history) == ([0.5, 0.25], [0.1, 0.4], [0.0])
    assert RESULT.series("accuracy") == []


def test_what_is_not_finite_is_null_in_the_file_and_missing_in_the_history(tmp_path):
    broken = TrainingResult(Path("a"), 2, float("nan"), {}, 1.0, ({"loss": float("inf")}, {"loss": 1.0}))
    broken.save(tmp_path / "result.json")
    assert json.loads((tmp_path / "result.json").read_text())["history"][0] == {"loss": None}
    assert TrainingResult.load(tmp_path / "result.json").loss_history == [1.0]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"weights_dir": "a"}', '{"weights_dir": "a", "history": [], "x": 1}']
)
def test_a_file_that_is_no_result_is_one_clear_error(tmp_path, text):
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(BadFile, match="is not the result of a training"):
        TrainingResult.load(tmp_path / "result.json")


def test_a_missing_file_is_one_clear_error(tmp_path):
    with pytest.raises(BadFile):
        TrainingResult.load(tmp_path / "nothing.json")
