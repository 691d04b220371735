from __future__ import annotations

import math
from pathlib import Path
from statistics import fmean

import pytest

from rl.base.errors import Interrupted
from rl.base.records import silent
from rl.config.training_job import LEARNED_ROWS
from rl.training import dpo, kto
from tests.evaluation.pair_sets import score_pairs
from tests.training.conftest import Listener, job, polite_rows, same_weights
from tests.training.test_kto import labelled_rows

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


def test_kto_imitates_what_is_labelled_good(tiny_base: Path, tmp_path: Path):
    listener = Listener()
    kto.train(job(tiny_base, tmp_path, labelled_rows(), sft_epochs=1.0), listener)
    assert "imitates 8 good answers first" in listener.log
