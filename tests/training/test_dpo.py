import math
import random
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from datasets import Dataset
from trl.kernels.chunked_logprob import _use_triton

from rl.base.errors import Interrupted, NotEnoughData, TrainingFailed
from rl.base.records import TrainingResult, silent
from rl.config.method_configs import PREFERENCE_LOSSES
from rl.config.training_job import LEARNED_ROWS
from rl.demo import DEMO_TRAINING, demo_answers
from rl.evaluation.torch.scoring import score_versions
from rl.hardware import REPLACED
from rl.lm import checkpoints, loading
from rl.lm.log_probs import StoredAnswers, use_compact_head
from rl.training import dpo, preparing
from tests.training.conftest import (
    Listener,
    job,
    picture,
    polite_rows,
    row,
    same_weights,
    stop_and_go_on,
    train_until_killed,
    weights,
)

pytestmark = pytest.mark.learn

Run = tuple[TrainingResult, Listener]


@pytest.fixture(scope="module")
def uninterrupted_run(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    listener = Listener()
    return dpo.train(job(tiny_base, tmp_path_factory.mktemp("whole")), listener), listener


def test_every_step_is_reported_with_short_names(uninterrupted_run: Run):
    result, listener = uninterrupted_run
    assert list(listener.losses) == [1, 2, 3, 4, 5, 6]
    last = next(values for event, values in reversed(listener.events) if event == "step")
    assert last["total_steps"] == result.steps == 6
    assert {"loss", "accuracy", "margin", "learning_rate", "grad_norm", "epoch"} <= last["metrics"].keys()


def test_the_result_sums_up_the_run(uninterrupted_run: Run):
    result, listener = uninterrupted_run
    assert result.final_loss == listener.losses[6]
    assert result.metrics["loss"] == listener.losses[6]
    assert result.metrics["dropped_rows"] == 0
    assert result.metrics["trainable_parameters"] == sum(tensor.numel() for tensor in weights(result).values())
    assert result.seconds > 0


def test_the_adapter_is_whole_and_holds_no_pickle(uninterrupted_run: Run):
    result, _ = uninterrupted_run
    run = result.weights_dir.parent
    assert {"adapter_config.json", "adapter_model.safetensors"} <= {path.name for path in result.weights_dir.iterdir()}
    assert not any(path.is_dir() for path in result.weights_dir.iterdir())
    assert not list(run.rglob("training_args.bin"))
    assert {path.name for path in run.iterdir()} == {"adapter", "checkpoint-6", LEARNED_ROWS}


def test_dropout_stays_on_in_the_adapter(tiny_base: Path, tmp_path: Path, uninterrupted_run: Run):
    without = dpo.train(job(tiny_base, tmp_path, lora_dropout=0.0), silent)
    assert not same_weights(without, uninterrupted_run[0])


def test_scoring_the_base_model_once_gives_the_losses_of_scoring_it_every_time(
    tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    once, every_time = Listener(), Listener()
    dpo.train(job(tiny_base, tmp_path / "once", epochs=1.0), once)
    monkeypatch.setattr(dpo._Trainer, "use_reference", lambda *args: None)
    dpo.train(job(tiny_base, tmp_path / "every", epochs=1.0), every_time)
    assert list(once.losses.values()) == pytest.approx(list(every_time.losses.values()), abs=1e-5)


def test_bf16_on_a_slow_cpu_is_float32_and_the_log_says_so(
    tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    whole, asked = Listener(), Listener()
    dpo.train(job(tiny_base, tmp_path / "whole", precision="fp32", max_steps=2), whole)
    monkeypatch.setattr(loading, "cpu_runs_bf16", lambda: False)
    dpo.train(job(tiny_base, tmp_path / "asked", precision="bf16", max_steps=2), asked)
    assert asked.losses == whole.losses
    assert REPLACED in asked.log
    assert REPLACED not in whole.log


def test_the_answers_to_score_are_read_when_they_are_asked_for():
    """As Python lists they would take 36 bytes a token, twice the prompt included."""
    rows = Dataset.from_list(
        [{"prompt_ids": [i], "chosen_ids": [10 + i, 1], "rejected_ids": [20 + i]} for i in range(3)]
    )
    answers = StoredAnswers(rows, "chosen_ids", "rejected_ids")
    expected = [([0], [10, 1]), ([1], [11, 1]), ([2], [12, 1]), ([0], [20]), ([1], [21]), ([2], [22])]
    assert list(answers) == [answers[i] for i in range(len(answers))] == expected
    assert not any(isinstance(value, list) for value in vars(answers).values())


def test_an_interrupted_training_leaves_a_checkpoint_and_resumes_to_the_same_adapter(
    tiny_base: Path, tmp_path: Path, uninterrupted_run: Run
):
    whole, whole_listener = uninterrupted_run
    rest = Listener()
    resumed = stop_and_go_on(dpo.train, job(tiny_base, tmp_path), rest)
    assert rest.losses == {step: loss for step, loss in whole_listener.losses.items() if step > 2}
    assert resumed.final_loss == whole.final_loss
    assert same_weights(resumed, whole)


def test_a_training_that_ended_before_its_adapter_was_written_resumes_without_a_step(
    tiny_base: Path, tmp_path: Path, uninterrupted_run: Run
):
    with pytest.raises(Interrupted):
        dpo.train(job(tiny_base, tmp_path), Listener(stop_at=6))
    rest = Listener()
    resumed = dpo.train(job(tiny_base, tmp_path, resume=True), rest)
    assert rest.losses == {}
    assert resumed.final_loss == uninterrupted_run[0].final_loss
    assert same_weights(resumed, uninterrupted_run[0])


def test_a_killed_training_resumes_to_the_same_losses_and_adapter(
    tiny_base: Path, tmp_path: Path, uninterrupted_run: Run
):
    train_until_killed(dpo.train, job(tiny_base, tmp_path, save_steps=2))
    half_written = tmp_path / "run" / "checkpoint-5"
    half_written.mkdir()
    (half_written / "adapter_config.json").write_text("{}")

    rest = Listener()
    resumed = dpo.train(job(tiny_base, tmp_path, resume=True), rest)
    whole, whole_listener = uninterrupted_run
    assert rest.losses == {step: loss for step, loss in whole_listener.losses.items() if step > 4}
    assert same_weights(resumed, whole)
    assert not half_written.exists()


def test_a_fresh_start_forgets_older_checkpoints(tiny_base: Path, tmp_path: Path):
    with pytest.raises(Interrupted):
        dpo.train(job(tiny_base, tmp_path, seed=1), Listener(stop_at=3))
    with pytest.raises(Interrupted):
        dpo.train(job(tiny_base, tmp_path, seed=2), Listener(stop_at=1))
    assert [path.name for path in (tmp_path / "run").glob("checkpoint-*")] == ["checkpoint-1"]


def test_an_interrupt_within_a_long_step_waits_for_its_end(tiny_base: Path, tmp_path: Path):
    calls = 0

    def report(event: str, values: dict[str, Any]) -> None:
        nonlocal calls
        calls += event == "step" and values["total_steps"] == 2
        if calls == 2:
            raise Interrupted("within step 1")

    with pytest.raises(Interrupted, match="within step 1"):
        dpo.train(job(tiny_base, tmp_path, epochs=2.0, batch_size=4, gradient_accumulation=3), report)
    assert checkpoints.newest_complete(tmp_path / "run") == tmp_path / "run" / "checkpoint-1"


def test_too_many_long_prompts_are_refused_with_a_length_that_would_do(tiny_base: Path, tmp_path: Path):
    long = [row("word " * 200, "Thank you.", "Perhaps not.") for _ in range(4)]
    with pytest.raises(
        NotEnoughData, match=r"4 of 16 prompts fill max_length 128 .* max_length \d+ every row would fit"
    ):
        dpo.train(job(tiny_base, tmp_path, polite_rows() + long), silent)


def test_a_few_long_prompts_are_left_out_and_counted(tiny_base: Path, tmp_path: Path):
    rows = [*polite_rows(), row("word " * 200, "Thank you.", "No."), row("Short?", "word " * 200, "No.")]
    listener = Listener()
    result = dpo.train(job(tiny_base, tmp_path, rows, epochs=0.5), listener)
    assert result.metrics["dropped_rows"] == 1
    assert result.metrics["cut_rows"] == 1
    assert "1 of 14 prompts" in listener.log
    assert "an answer that is cut at 128 tokens" in listener.log


def test_no_rows_are_an_error(tiny_base: Path, tmp_path: Path):
    with pytest.raises(NotEnoughData, match="no rows to train on"):
        dpo.train(job(tiny_base, tmp_path, []), silent)


def test_a_loss_that_is_no_number_is_reported_and_ends_the_training_without_a_checkpoint(
    tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    load = loading.load_base

    def fail(*arguments: str) -> torch.nn.Module:
        model = load(*arguments)
        with torch.no_grad():
            model.lm_head.weight[5] = math.inf
        return model

    monkeypatch.setattr(loading, "load_base", fail)
    listener = Listener()
    with pytest.raises(TrainingFailed, match="became nan at step 1: lower learning_rate"):
        dpo.train(job(tiny_base, tmp_path, save_steps=1), listener)
    assert math.isnan(listener.losses[1])
    assert checkpoints.newest_complete(tmp_path / "run") is None


def test_the_compact_head_gives_the_same_weights(tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Up to the rounding of processors that multiply matrices of another size in another order."""
    use_compact_head()
    compact = dpo.train(job(tiny_base, tmp_path / "compact", epochs=1.0), silent)
    monkeypatch.setattr("trl.trainer.utils._use_triton", _use_triton)
    monkeypatch.setattr(preparing, "use_compact_head", lambda: None)
    stock = dpo.train(job(tiny_base, tmp_path / "stock", epochs=1.0), silent)
    assert compact.loss_history == pytest.approx(stock.loss_history, abs=1e-6)
    expected = weights(stock)
    assert all(torch.allclose(value, expected[name], atol=1e-6) for name, value in weights(compact).items())


def test_good_answers_to_new_questions_become_likelier_than_bad_ones(tiny_base: Path, tmp_path: Path):
    """Pairs whose sides are drawn by lot teach nothing of the kind. Measured with seeds 1 to 3."""
    assert mean_gain(tiny_base, tmp_path / "real", polite_rows(24)) > 5
    drawn = random.Random(1)
    rows = [
        entry if drawn.random() < 0.5 else {**entry, "chosen": entry["rejected"], "rejected": entry["chosen"]}
        for entry in polite_rows(24)
    ]
    assert mean_gain(tiny_base, tmp_path / "random", rows) < 3


def mean_gain(base: Path, folder: Path, rows: list[Any]) -> float:
    """Nats that the good answer to a new question gained on the bad one."""
    result = dpo.train(job(base, folder, rows, seed=1, epochs=2.0), silent)
    adapters = {"base": None, "tuned": result.weights_dir}
    scores = score_versions(str(base), adapters, polite_rows(36)[24:], max_length=128, report=silent)
    return fmean(
        new.margin - old.margin for new, old in zip(scores["tuned"], scores["base"], strict=True) if new and old
    )


def test_bf16_learns_too(tiny_base: Path, tmp_path: Path):
    result = dpo.train(job(tiny_base, tmp_path, precision="bf16", epochs=3.0), silent)
    assert result.final_loss < math.log(2)
    assert all(tensor.dtype == torch.float32 for tensor in weights(result).values())


@pytest.mark.slow
def test_the_demo_teaches_the_tiny_model_what_its_raters_like(tiny_base: Path, tmp_path: Path):
    rows = []
    for question in demo_answers(seed=1):
        thumbs = [[rating.up for rating in question.opinions if rating.answer == number] for number in (0, 1)]
        liked, hated = list(map(all, thumbs)), [not any(of_answer) for of_answer in thumbs]
        for chosen, rejected in ((0, 1), (1, 0)):
            if liked[chosen] and hated[rejected]:
                rows.append(row(question.question, question.answers[chosen], question.answers[rejected]))
    held_out = rows[::4]
    trained = [entry for entry in rows if entry not in held_out]
    result = dpo.train(job(tiny_base, tmp_path, trained, **DEMO_TRAINING), silent)
    picture(result, "dpo")
    adapters = {"base": None, "tuned": result.weights_dir}
    scores = score_versions(str(tiny_base), adapters, held_out, max_length=256, report=silent)
    accuracy = {name: sum(score.credit for score in pairs) / len(pairs) for name, pairs in scores.items()}
    assert 0.3 < accuracy["base"] < 0.7
    assert accuracy["tuned"] > 0.85


TWO_STEPS: dict[str, Any] = {"epochs": 1.0, "lora_dropout": 0.0}


def two_losses(base: Path, folder: Path, **settings: Any) -> list[float]:
    listener = Listener()
    result = dpo.train(job(base, folder, polite_rows(8), **{**TWO_STEPS, **settings}), listener)
    assert all(tensor.isfinite().all() for tensor in weights(result).values())
    return list(listener.losses.values())


AT_THE_START = {
    "sigmoid": math.log(2),
    "hinge": 1.0,
    "ipo": 25.0,
    "robust": math.log(2),
    "nca_pair": 2 * math.log(2),
    "bco_pair": 2 * math.log(2),
    "sppo_hard": 50.0,
    "aot": math.log(2),
    "aot_unpaired": math.log(2),
    "apo_zero": 1.0,
    "apo_down": 1.0,
    "sigmoid_norm": math.log(2),
}
"""Losses of a policy that is its reference still, for beta 0.1: each answer's ratio is 1."""


@pytest.mark.parametrize("loss", PREFERENCE_LOSSES)
def test_every_loss_trains(tiny_base: Path, tmp_path: Path, loss: str):
    first, second = two_losses(tiny_base, tmp_path, preference_loss=loss)
    assert first == pytest.approx(AT_THE_START.get(loss, first), rel=1e-3)
    assert math.isfinite(second)


def test_a_mix_is_the_sum_with_its_weights(tiny_base: Path, tmp_path: Path):
    imitation, _ = two_losses(tiny_base, tmp_path / "sft", preference_loss="sft")
    mixed, _ = two_losses(tiny_base, tmp_path / "mixed", preference_loss="sigmoid:2,sft:0.5")
    assert mixed == pytest.approx(2 * math.log(2) + 0.5 * imitation, rel=1e-3)


@pytest.mark.parametrize("loss", ["robust", "sigmoid:1,sft:0.2", "aot_unpaired"])
def test_reference_scores_that_are_computed_once_give_the_same(
    tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: str
):
    once = two_losses(tiny_base, tmp_path / "once", preference_loss=loss, epochs=2.0)
    monkeypatch.setattr(dpo._Trainer, "use_reference", lambda *args: None)
    every_time = two_losses(tiny_base, tmp_path / "every", preference_loss=loss, epochs=2.0)
    assert once == pytest.approx(every_time, abs=1e-5)


def test_label_smoothing_changes_what_robust_learns_and_nothing_where_it_is_zero(tiny_base: Path, tmp_path: Path):
    plain = dpo.train(job(tiny_base, tmp_path / "plain", **TWO_STEPS), silent).loss_history
    none, some = (
        dpo.train(
            job(tiny_base, tmp_path / str(share), preference_loss="robust", label_smoothing=share, **TWO_STEPS), silent
        ).loss_history
        for share in (0.0, 0.3)
    )
    assert none == pytest.approx(plain, abs=1e-6)
    assert some[-1] != pytest.approx(plain[-1], abs=1e-4)
