"""What was held out is measured at the end of each pass: twelve rows make three steps of a pass."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from rl.base.errors import Interrupted
from rl.base.records import TrainingResult, silent
from rl.config import TrainingConfig
from rl.config.training_job import TrainingJob
from rl.evaluation.torch.scoring import score_versions
from rl.training import dpo, sft
from tests.training import conftest
from tests.training.conftest import Listener, Row, polite_rows, same_weights, stop_and_go_on, write_rows
from tests.training.test_mpo import pair, single

pytestmark = pytest.mark.learn

Train = Callable[[TrainingJob, Any], TrainingResult]


def aside() -> list[Row]:
    """Rows of other questions; one has no accepted answer."""
    return [*map(pair, polite_rows(20)[14:]), single(polite_rows(21)[20], good=False)]


def job(train: Train, base: Path, folder: Path, held_out: list[Row] | None, **overrides: Any) -> TrainingJob:
    preferences = train is dpo.train
    made = conftest.job(base, folder, polite_rows() if preferences else [pair(row) for row in polite_rows()])
    if not preferences:
        made = replace(made, config=TrainingConfig().with_overrides({**conftest.SMALL, **overrides}))
    if held_out is None:
        return made
    rows = polite_rows(20)[14:] if preferences else held_out
    return replace(made, heldout_rows=write_rows(folder / "heldout.jsonl", rows))


def looks(result: TrainingResult, name: str) -> dict[int, float]:
    return {step: of[name] for step, of in enumerate(result.history, 1) if name in of}


@pytest.mark.parametrize("train", [sft.train, dpo.train], ids=["sft", "dpo"])
def test_each_pass_ends_with_a_look_that_changes_nothing(tiny_base: Path, tmp_path: Path, train: Train):
    listener = Listener()
    looked = train(job(train, tiny_base, tmp_path / "looked", aside()), listener)
    alone = train(job(train, tiny_base, tmp_path / "alone", None), Listener())
    assert same_weights(looked, alone)
    losses = looks(looked, "held_out_loss")
    assert list(losses) == [3, 6]
    assert losses[6] < losses[3]
    assert not looks(alone, "held_out_loss")
    shares = looks(looked, "held_out_token_accuracy" if train is sft.train else "held_out_accuracy")
    assert list(shares) == [3, 6]
    assert all(0 <= share <= 1 for share in shares.values())
    reported = [values["metrics"] for event, values in listener.events if event == "step" and values["step"] == 6]
    assert reported[-1] == looked.history[-1]
    assert "loss" in reported[-1]


def test_the_figures_are_those_of_accepted_answers_a_token(tiny_base: Path, tmp_path: Path):
    result = sft.train(job(sft.train, tiny_base, tmp_path, aside()), Listener())
    adapters = {"new": result.weights_dir}
    scores = score_versions(str(tiny_base), adapters, polite_rows(20)[14:], max_length=128, report=silent)["new"]
    assert looks(result, "held_out_loss")[6] == pytest.approx(
        fmean(-score.chosen_logp / score.chosen_tokens for score in scores), rel=1e-4
    )


def test_a_run_that_was_stopped_has_the_looks_of_both_halves(tiny_base: Path, tmp_path: Path):
    whole = sft.train(job(sft.train, tiny_base, tmp_path / "whole", aside()), Listener())
    parted = stop_and_go_on(sft.train, job(sft.train, tiny_base, tmp_path / "parted", aside()), step=5)
    assert looks(parted, "held_out_loss") == looks(whole, "held_out_loss")


def test_a_look_can_be_interrupted_and_the_pass_before_it_is_kept(tiny_base: Path, tmp_path: Path):
    class Impatient(Listener):
        def __call__(self, event: str, values: dict[str, Any]) -> None:
            looks_already = event == "step" and 3 in self.losses
            super().__call__(event, values)
            if looks_already:
                raise Interrupted("stopped by a test")

    with pytest.raises(Interrupted, match="stopped by a test"):
        sft.train(job(sft.train, tiny_base, tmp_path, aside()), Impatient())
    assert max(int(folder.name.partition("-")[2]) for folder in (tmp_path / "run").glob("checkpoint-*")) in (3, 4)
