import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import BadFile
from rl.base.records import TrainingResult, silent
from rl.config import MPOConfig
from rl.config.training_job import TrainingJob
from rl.evaluation.torch.scoring import score_versions
from rl.training import dpo, kto, mpo
from tests.training import conftest, test_kto
from tests.training.conftest import (
    Listener,
    Row,
    kill_and_go_on,
    picture,
    polite_rows,
    same_weights,
    stop_and_go_on,
)

pytestmark = pytest.mark.learn

Run = tuple[TrainingResult, Listener]


def job(base: Path, folder: Path, rows: list[Row], resume: bool = False, **overrides: Any) -> TrainingJob:
    config = MPOConfig().with_overrides({**conftest.SMALL, **overrides})
    return replace(conftest.job(base, folder, rows, resume), config=config)


def pair(row: Row, weight: float = 1.0) -> Row:
    return {**row, "weight": weight}


def single(row: Row, good: bool, weight: float = 1.0) -> Row:
    return pair({**row, "rejected" if good else "chosen": None}, weight)


def mixed_rows(count: int = 12) -> list[Row]:
    """A third are pairs, a third liked answers, a third disliked ones."""
    return [
        pair(row) if number % 3 == 0 else single(row, good=number % 3 == 1)
        for number, row in enumerate(polite_rows(count))
    ]


@pytest.fixture(scope="module")
def uninterrupted_run(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    listener = Listener()
    return mpo.train(job(tiny_base, tmp_path_factory.mktemp("whole"), mixed_rows()), listener), listener


def test_it_says_what_it_learns_from(uninterrupted_run: Run):
    result, listener = uninterrupted_run
    assert "4 pairs and 8 single answers: a liked one counts 1.00 times, a disliked one 1.00 times" in listener.log
    assert {"loss", "kl", "margin", "accuracy", "chosen_reward", "rejected_reward"} <= result.metrics.keys()
    assert result.steps == 6


def test_of_pairs_alone_it_has_the_losses_of_dpo(tiny_base: Path, tmp_path: Path):
    """All rows in each step, so that their order has no say."""
    same = {"batch_size": 12, "epochs": 4.0, "lora_dropout": 0.0}
    ours, theirs = Listener(), Listener()
    mpo.train(job(tiny_base, tmp_path / "mpo", [pair(row) for row in polite_rows()], sft_weight=0.0, **same), ours)
    dpo.train(conftest.job(tiny_base, tmp_path / "dpo", polite_rows(), **same), theirs)
    assert len(ours.losses) == 4
    assert list(ours.losses.values()) == pytest.approx(list(theirs.losses.values()), abs=1e-5)


def test_of_single_answers_alone_it_has_the_losses_of_kto(tiny_base: Path, tmp_path: Path):
    labelled = test_kto.labelled_rows()
    rows = [{**row, "chosen": row["completion"], "rejected": row["completion"], "prompt_key": "x"} for row in labelled]
    singles = [single(row, good=row["label"]) for row in rows]
    ours, theirs = Listener(), Listener()
    mpo.train(job(tiny_base, tmp_path / "mpo", singles, lora_dropout=0.0, sft_weight=0.0), ours)
    kto.train(conftest.job(tiny_base, tmp_path / "kto", labelled, lora_dropout=0.0), theirs)
    assert len(ours.losses) == 6
    assert list(ours.losses.values()) == pytest.approx(list(theirs.losses.values()), abs=1e-5)


def test_a_row_counts_by_its_weight(tiny_base: Path, tmp_path: Path):
    rows = mixed_rows()
    losses = []
    for name, weight in (("whole", 1.0), ("half", 0.5)):
        listener = Listener()
        weighted = [{**row, "weight": weight} for row in rows]
        mpo.train(job(tiny_base, tmp_path / name, weighted, batch_size=12, max_steps=1, lora_dropout=0.0), listener)
        losses += listener.losses.values()
    assert losses[1] == pytest.approx(losses[0] / 2, rel=1e-4)


def test_chosen_answers_are_imitated_too(tiny_base: Path, tmp_path: Path):
    rows = [pair(row) for row in polite_rows()]
    likelihoods = []
    for sft_weight in (0.0, 5.0):
        result = mpo.train(job(tiny_base, tmp_path / str(sft_weight), rows, epochs=4.0, sft_weight=sft_weight), silent)
        likelihoods.append(result.metrics["chosen_reward"])
    assert likelihoods[1] > likelihoods[0] + 0.1


def test_good_answers_to_new_questions_become_likelier_than_bad_ones(tiny_base: Path, tmp_path: Path):
    """Measured with seeds 1 to 3."""
    rows = mixed_rows(48)
    random.Random(1).shuffle(rows)
    result = mpo.train(job(tiny_base, tmp_path, rows, seed=1, epochs=4.0), silent)
    picture(result, "mpo")
    adapters = {"base": None, "tuned": result.weights_dir}
    scores = score_versions(str(tiny_base), adapters, polite_rows(60)[48:], max_length=128, report=silent)
    gains = [new.margin - old.margin for new, old in zip(scores["tuned"], scores["base"], strict=True)]
    assert min(gains) > 1, "each question's good answer gained at least a nat on the bad one"


@pytest.mark.parametrize("go_on", [stop_and_go_on, kill_and_go_on])
def test_a_stopped_training_resumes_to_the_same_adapter(
    tiny_base: Path, tmp_path: Path, uninterrupted_run: Run, go_on: Any
):
    assert same_weights(go_on(mpo.train, job(tiny_base, tmp_path, mixed_rows(), save_steps=2)), uninterrupted_run[0])


def test_liked_answers_alone_are_learned_without_disliked_ones(tiny_base: Path, tmp_path: Path):
    rows = [single(row, good=True) for row in polite_rows()]
    result = mpo.train(job(tiny_base, tmp_path, rows, epochs=6.0), silent)
    assert result.metrics["chosen_reward"] > 0.1


def test_a_row_without_an_answer_is_refused_with_its_line(tiny_base: Path, tmp_path: Path):
    rows = [*mixed_rows(2), pair({**polite_rows(1)[0], "chosen": None, "rejected": None})]
    with pytest.raises(BadFile, match=r"\(line 3\): chosen and rejected are all null"):
        mpo.train(job(tiny_base, tmp_path, rows), silent)
