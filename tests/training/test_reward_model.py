import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from trl import RewardTrainer

from rl.base.errors import UsageError
from rl.base.records import TrainingResult, silent
from rl.config import RewardModelConfig
from rl.config.training_job import TrainingJob
from rl.data_formatter.fresh import fresh_trace
from rl.training import reward_model, reward_scoring
from rl.training.reward_model import Batches, metrics, reward_loss, sides, sums
from tests.training.conftest import (
    SMALL,
    Listener,
    Row,
    kill_and_go_on,
    message,
    mixed_rows,
    picture,
    polite_rows,
    same_weights,
    scored_rows,
    stop_and_go_on,
    write_rows,
)
from tests.training.conftest import job as any_job

pytestmark = pytest.mark.learn

Run = tuple[TrainingResult, Listener]


def job(base: Path, folder: Path, rows: list[Row] | None = None, resume: bool = False, **overrides: Any) -> TrainingJob:
    made = any_job(base, folder, rows, resume)
    heldout = write_rows(folder / "heldout.jsonl", polite_rows(36)[24:])
    config = RewardModelConfig().with_overrides({**SMALL, **overrides})
    return replace(made, config=config, heldout_rows=heldout)


@pytest.fixture(scope="module")
def uninterrupted_run(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    listener = Listener()
    return reward_model.train(job(tiny_base, tmp_path_factory.mktemp("whole")), listener), listener


def test_it_says_how_right_and_how_sure_it_is_on_held_out_pairs(uninterrupted_run: Run):
    result, listener = uninterrupted_run
    assert result.metrics["heldout_pairs"] == 12
    assert result.metrics["heldout_accuracy"] == 1
    assert 0 < result.metrics["heldout_calibration_error"] < 0.5
    assert "12 held-out pairs: 100.0% in the right order, expected calibration error 0." in listener.log
    assert {"loss", "accuracy", "margin", "reward"} <= result.metrics.keys()


def test_the_saved_model_gives_the_numbers_of_the_trained_one(uninterrupted_run: Run):
    result, _ = uninterrupted_run
    again = reward_scoring.load(result.weights_dir)
    scores = reward_scoring.score_pairs(again, polite_rows(36)[24:], silent)
    assert math.fsum(score.margin for score in scores if score) / 12 == result.metrics["heldout_margin"]


def test_a_loaded_model_scores_answers_from_0_to_1(uninterrupted_run: Run):
    model = reward_scoring.load(uninterrupted_run[0].weights_dir)
    prompt = [message("user", "Question number 40?")]
    good, bad = (model.score(prompt, answer) for answer in ("Thank you, open page 40.", "Perhaps it, wait page 40."))
    assert good is not None
    assert bad is not None
    assert 0 < bad < good < 1
    score = model(fresh_trace({"prompt": prompt, "details": {}}, "Thank you, open page 40."))
    assert (score.value, score.components) == (good, {"reward_model": good})
    assert model.score([message("user", "long " * 5000)], "Thanks.") is None


def test_it_learns_what_shuffled_pairs_do_not_teach(tiny_base: Path, tmp_path: Path):
    """Measured with seeds 1 to 3."""
    chance = random.Random(1)
    rows = polite_rows(24)
    shuffled = [chance.choice([row, {**row, "chosen": row["rejected"], "rejected": row["chosen"]}]) for row in rows]
    learned = reward_model.train(job(tiny_base, tmp_path / "real", rows, seed=1, epochs=4.0), silent)
    picture(learned, "reward_model")
    noise = reward_model.train(job(tiny_base, tmp_path / "noise", shuffled, seed=1, epochs=4.0), silent)
    assert learned.metrics["heldout_accuracy"] == 1
    assert learned.metrics["heldout_margin"] > 1 + abs(noise.metrics["heldout_margin"])


def scored_job(base: Path, folder: Path, rows: list[Row], resume: bool = False, **overrides: Any) -> TrainingJob:
    """Held out: twelve scored answers."""
    made = job(base, folder, rows, resume, **overrides)
    write_rows(folder / "heldout.jsonl", scored_rows(36)[24:])
    return made


def test_single_scores_train_what_shuffled_scores_do_not(tiny_base: Path, tmp_path: Path):
    """Measured with seeds 1 to 3."""
    rows = scored_rows(24)
    scores = [row["score"] for row in rows]
    random.Random(1).shuffle(scores)
    shuffled = [{**row, "score": score} for row, score in zip(rows, scores, strict=True)]
    listener = Listener()
    learned = reward_model.train(scored_job(tiny_base, tmp_path / "real", rows, seed=1, epochs=6.0), listener)
    noise = reward_model.train(scored_job(tiny_base, tmp_path / "noise", shuffled, seed=1, epochs=6.0), silent)
    metrics = learned.metrics
    assert (metrics["heldout_pairs"], metrics["heldout_scored_answers"]) == (6, 12)
    assert metrics["heldout_accuracy"] == 1
    assert metrics["heldout_brier_score"] < metrics["heldout_brier_score_of_mean"] / 2
    assert metrics["heldout_brier_score"] < noise.metrics["heldout_brier_score"] / 2
    assert "heldout_calibration_error" not in metrics
    assert listener.losses[1] == pytest.approx(math.log(2)), "nothing is known: every score is taken for a half"
    assert "6 held-out pairs: 100.0% in the right order; Brier score 0.0" in listener.log


def test_a_scored_model_gives_scores_near_those_of_people(tiny_base: Path, tmp_path: Path):
    trained = reward_model.train(scored_job(tiny_base, tmp_path, scored_rows(24), seed=1, epochs=6.0), silent)
    model = reward_scoring.load(trained.weights_dir)
    prompt = [message("user", "Question number 40?")]
    good, bad = (model.score(prompt, answer) for answer in ("Thank you, open page 40.", "Perhaps it, wait page 40."))
    assert (good, bad) == (pytest.approx(0.88, abs=0.15), pytest.approx(0.12, abs=0.15))


def test_pairs_and_single_scores_train_one_model(tiny_base: Path, tmp_path: Path):
    listener = Listener()
    result = reward_model.train(scored_job(tiny_base, tmp_path, mixed_rows(24), seed=1, epochs=4.0), listener)
    assert {"loss", "accuracy", "margin", "brier_score", "reward"} <= result.metrics.keys()
    assert listener.losses[1] == pytest.approx(math.log(2))
    assert result.metrics["heldout_accuracy"] == 1


def test_an_interrupted_training_on_both_resumes_to_the_same_model(tiny_base: Path, tmp_path: Path):
    whole = reward_model.train(scored_job(tiny_base, tmp_path / "whole", mixed_rows()), silent)
    resumed = stop_and_go_on(reward_model.train, scored_job(tiny_base, tmp_path / "parts", mixed_rows()))
    assert same_weights(resumed, whole)


def test_of_pairs_the_losses_are_those_of_trl(
    tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uninterrupted_run: Run
):
    def compute_loss(self: Any, model: Any, inputs: dict[str, Any], *arguments: Any, **options: Any) -> Any:
        del inputs["scores"]
        return RewardTrainer.compute_loss(self, model, inputs, *arguments, **options)

    monkeypatch.setattr(reward_model._Trainer, "compute_loss", compute_loss)
    of_trl = reward_model.train(job(tiny_base, tmp_path), silent)
    for name in ("loss", "accuracy", "margin", "reward"):
        assert uninterrupted_run[0].series(name) == pytest.approx(of_trl.series(name), abs=1e-6)


def test_the_base_model_tells_nothing_apart(tiny_base: Path, uninterrupted_run: Run):
    adapters = {"base": None, "new": uninterrupted_run[0].weights_dir}
    scores = reward_scoring.score_versions(
        str(tiny_base), adapters, polite_rows(36)[24:], max_length=128, report=silent
    )
    assert {score.credit for score in scores["base"] if score} == {0.5}
    assert {score.credit for score in scores["new"] if score} == {1.0}


@pytest.mark.parametrize("go_on", [stop_and_go_on, kill_and_go_on])
def test_a_stopped_training_resumes_to_the_same_model(
    tiny_base: Path, tmp_path: Path, uninterrupted_run: Run, go_on: Any
):
    assert same_weights(go_on(reward_model.train, job(tiny_base, tmp_path, save_steps=2)), uninterrupted_run[0])


def test_an_adapter_that_answers_is_no_reward_model(tmp_path: Path):
    (tmp_path / "adapter_config.json").write_text('{"task_type": "CAUSAL_LM", "base_model_name_or_path": "x"}')
    (tmp_path / "adapter_model.safetensors").write_bytes(b"x")
    with pytest.raises(UsageError, match="is not a reward model: train_reward_model makes one"):
        reward_scoring.load(tmp_path)


NUMBERS, SCORES = torch.tensor([2.0, 0.0, 1.0, 0.5, -1.0]), torch.tensor([0.75])
"""Of two pairs (2 against 1, 0 against 0.5) and of one answer (-1)."""


def test_numbers_are_cut_into_sides():
    of = sides(NUMBERS, SCORES)
    assert [part.tolist() for part in of] == [[2.0, 0.0], [1.0, 0.5], [-1.0]]
    assert [len(part) for part in sides(NUMBERS[:4], SCORES[:0])] == [2, 2, 0]
    assert [len(part) for part in sides(NUMBERS[:3], torch.zeros(3))] == [0, 0, 3]


def test_the_loss_is_the_mean_over_pairs_and_answers():
    # -log sigmoid(1) = log(1 + e^-1) = 0.313262 and -log sigmoid(-0.5) = log(1 + e^0.5) = 0.974077
    # -0.75 log sigmoid(-1) - 0.25 log sigmoid(1) = 0.75 * 1.313262 + 0.25 * 0.313262 = 1.063262
    loss = reward_loss(sides(NUMBERS, SCORES), SCORES, center=0.0)
    assert loss.item() == pytest.approx((0.313262 + 0.974077 + 1.063262) / 3, abs=1e-6)


def test_numbers_of_pairs_alone_are_held_around_0():
    # 0.1 (2 + 1)^2 + 0.1 (0 + 0.5)^2 = 0.925
    apart = reward_loss(sides(NUMBERS, SCORES), SCORES, 0.1) - reward_loss(sides(NUMBERS, SCORES), SCORES, 0.0)
    assert apart.item() == pytest.approx(0.925 / 3, abs=1e-6)


def test_the_loss_is_least_where_the_sigmoid_is_the_score():
    number = torch.tensor([math.log(3.0)], requires_grad=True)  # whose sigmoid is 0.75
    reward_loss(sides(number, SCORES), SCORES, 0.0).backward()
    assert number.grad is not None
    assert number.grad.item() == pytest.approx(0.0, abs=1e-7)


def test_metrics_are_of_what_there_is():
    # sigmoid(-1) = 0.268941, (0.268941 - 0.75)^2 = 0.231418
    both = metrics(sums(sides(NUMBERS, SCORES), SCORES))
    assert both == pytest.approx(
        {"mean_reward": 0.5, "accuracy": 0.5, "margin": 0.25, "brier_score": 0.231418}, abs=1e-6
    )
    assert metrics(sums(sides(NUMBERS[:4], SCORES[:0]), SCORES[:0])).keys() == {"mean_reward", "accuracy", "margin"}
    assert metrics(sums(sides(NUMBERS[4:], SCORES), SCORES)).keys() == {"mean_reward", "brier_score"}


def test_a_batch_holds_chosen_rejected_and_single_answers_padded_on_the_right():
    nothing: dict[str, Any] = {"chosen_ids": None, "rejected_ids": None, "completion_ids": None, "score": None}
    rows = [
        {**nothing, "completion_ids": [7, 8], "score": 0.25},
        {**nothing, "chosen_ids": [1, 2, 3], "rejected_ids": [4]},
    ]
    batch = Batches(pad_token_id=9)(rows)
    assert batch["input_ids"].tolist() == [[1, 2, 3], [4, 9, 9], [7, 8, 9]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0], [1, 1, 0]]
    assert batch["scores"].tolist() == [0.25]
