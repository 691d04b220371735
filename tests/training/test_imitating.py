import math
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from rl.base.errors import Interrupted
from rl.base.records import silent
from rl.config import ImitationConfig
from rl.config.training_job import LEARNED_ROWS, TrainingJob
from rl.training import dpo, kto, sft
from rl.training.imitating import count_repeats
from tests.evaluation.pair_sets import score_pairs
from tests.training import conftest
from tests.training.conftest import Listener, Row, job, polite_rows, same_weights
from tests.training.test_kto import labelled_rows
from tests.training.test_mpo import pair

pytestmark = pytest.mark.learn


def chosen_logp(base: Path, adapter: Path | None) -> float:
    held_out = polite_rows(20)[12:]
    scores = score_pairs(str(base), adapter, held_out, max_length=128, report=silent)
    return fmean(score.chosen_logp for score in scores if score)


@pytest.fixture(scope="module")
def whole(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory):
    listener = Listener()
    folder = tmp_path_factory.mktemp("warm")
    return dpo.train(job(tiny_base, folder, sft_epochs=4.0), listener), listener


def test_good_answers_are_likely_before_the_method_starts(tiny_base: Path, whole):
    _, listener = whole
    assert "imitates 12 good answers first" in listener.log
    warm = whole[0].weights_dir.parent / "warm-up"
    assert chosen_logp(tiny_base, warm) > chosen_logp(tiny_base, None) + 5


def test_the_method_is_held_near_the_warm_up_and_not_the_base_model(whole):
    _, listener = whole
    first = next(v["metrics"]["loss"] for e, v in listener.events if e == "step" and "margin" in v.get("metrics", {}))
    assert first == pytest.approx(math.log(2), abs=0.02), "the policy and its reference begin as one"


def test_the_adapter_is_one_like_any_other(tiny_base: Path, whole):
    adapter = whole[0].weights_dir
    assert sorted(path.name for path in adapter.iterdir() if path.is_dir()) == []
    assert chosen_logp(tiny_base, adapter) > chosen_logp(tiny_base, None)


def test_a_resumed_run_does_not_imitate_again(tiny_base: Path, tmp_path: Path, whole):
    stopped = Listener(stop_at=2)

    def after_the_warm_up(event, values):
        if event != "step" or "margin" in values["metrics"]:
            stopped(event, values)

    with pytest.raises(Interrupted):
        dpo.train(job(tiny_base, tmp_path, sft_epochs=4.0), after_the_warm_up)
    rest = Listener()
    resumed = dpo.train(job(tiny_base, tmp_path, resume=True, sft_epochs=4.0), rest)
    assert "imitates" not in rest.log
    assert same_weights(resumed, whole[0])


def test_an_interrupted_warm_up_leaves_nothing_to_go_on_from(tiny_base: Path, tmp_path: Path):
    with pytest.raises(Interrupted):
        dpo.train(job(tiny_base, tmp_path, sft_epochs=4.0), Listener(stop_at=2))
    assert [path.name for path in (tmp_path / "run").iterdir()] == [LEARNED_ROWS]


def test_imitation_before_a_method_has_a_rate_and_passes_of_its_own(tiny_base: Path, tmp_path: Path):
    listener = Listener()
    dpo.train(job(tiny_base, tmp_path, sft_epochs=-1.0, learning_rate=1e-6, max_steps=1), listener)
    assert "imitates 12 good answers first, for 10 passes, learning rate 6.7e-4" in listener.log


def test_kto_imitates_what_is_labelled_good(tiny_base: Path, tmp_path: Path):
    listener = Listener()
    kto.train(job(tiny_base, tmp_path, labelled_rows(), sft_epochs=1.0), listener)
    assert "imitates 8 good answers first" in listener.log


def uneven() -> list[Row]:
    """Nine questions of one class, and one of the other."""
    answers = ["cards"] * 9 + ["cash"]
    return [pair(conftest.row(f"Question {number}?", answer, "other")) for number, answer in enumerate(answers)]


def uneven_job(base: Path, folder: Path, kind: str = "closed", **overrides: Any) -> TrainingJob:
    config = ImitationConfig().with_overrides({**conftest.SMALL, "epochs": 1.0, "batch_size": 2, **overrides})
    return replace(conftest.job(base, folder, uneven()), config=config, kind=kind)


def test_rows_are_repeated_by_the_square_root_of_how_much_rarer_their_class_is_at_most_four_times():
    assert count_repeats({"cards": 60, "top-up": 15, "cash": 6, "identity": 3, "exchange": 1}) == {
        "top-up": 2,
        "cash": 3,
        "identity": 4,
        "exchange": 4,
    }


def test_classes_that_are_about_alike_stay_as_they_are():
    assert count_repeats({"cards": 50, "cash": 23}) == {}
    assert count_repeats({}) == {}


def test_a_rare_class_of_a_closed_set_is_learned_several_times_in_a_pass(tiny_base: Path, tmp_path: Path):
    listener = Listener()
    result = sft.train(uneven_job(tiny_base, tmp_path), listener)
    assert "imitates 10 accepted answers; with rare ones repeated 12 a pass" in listener.log
    assert result.steps == 6


@pytest.mark.parametrize(("kind", "overrides"), [("closed", {"balance_classes": False}), ("structured", {})])
def test_nothing_is_repeated_where_nobody_wants_it_or_the_answers_are_of_no_closed_set(
    tiny_base: Path, tmp_path: Path, kind: str, overrides: dict[str, Any]
):
    result = sft.train(uneven_job(tiny_base, tmp_path, kind, **overrides), Listener())
    assert result.steps == 5


def test_the_trainings_without_a_part_repeat_too(tiny_base: Path, tmp_path: Path):
    listener, rows = Listener(), uneven()
    folded = replace(uneven_job(tiny_base, tmp_path), folds=1, tested=(rows[0]["prompt_key"],))
    sft.train(folded, listener)
    # eight and one are left, and the one is there three times
    first = next(
        number for number, (event, values) in enumerate(listener.events) if "without" in values.get("name", "")
    )
    steps = [values["total_steps"] for event, values in listener.events[first:] if event == "step"]
    assert steps[0] == 6
