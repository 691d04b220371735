"""Training of all weights: what each method leaves is a model of its own, better than the one that it started from."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rl.base.errors import Interrupted, TrainingFailed
from rl.base.records import TrainingResult, silent
from rl.config.training_job import LEARNED_ROWS
from rl.evaluation.torch.answering import answer_versions
from rl.evaluation.torch.scoring import score_versions
from rl.lm import loading
from rl.lm.model_path import base_of, is_reward_model
from rl.training import dpo, grpo, kto, reward_model, reward_scoring
from tests.training import test_grpo, test_reward_model, two_processes
from tests.training.conftest import Listener, job, message, polite_rows, same_weights, stop_and_go_on, weights
from tests.training.test_kto import labelled_rows

pytestmark = pytest.mark.learn

Run = tuple[TrainingResult, Listener]
FULL: dict[str, Any] = {"full": True, "learning_rate": 2e-4}
HELD_OUT = polite_rows(36)[24:]


def no_copy(*arguments: object, **options: object) -> None:
    raise AssertionError("a second model was loaded")


@pytest.fixture(scope="module")
def uninterrupted_run(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    listener = Listener()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trl.trainer.dpo_trainer.create_model_from_path", no_copy)
        return dpo.train(job(tiny_base, tmp_path_factory.mktemp("whole"), **FULL), listener), listener


def gain(base: Path, result: TrainingResult) -> float:
    """Nats that good answers to new questions gained on bad ones."""
    compared = {"base": None, "new": result.weights_dir}
    scores = score_versions(str(base), compared, HELD_OUT, max_length=128, report=silent)
    return fmean(new.margin - old.margin for new, old in zip(scores["new"], scores["base"], strict=True) if new and old)


def test_dpo_leaves_a_model_that_plain_transformers_load(tiny_base: Path, uninterrupted_run: Run):
    result, _ = uninterrupted_run
    assert {path.name for path in result.weights_dir.parent.iterdir()} == {"model", "checkpoint-6", LEARNED_ROWS}
    assert base_of(result.weights_dir) == str(tiny_base)
    assert not is_reward_model(result.weights_dir)
    model = AutoModelForCausalLM.from_pretrained(result.weights_dir)
    tokenizer = AutoTokenizer.from_pretrained(result.weights_dir)
    ids = tokenizer.apply_chat_template([message("user", "Hello?")], add_generation_prompt=True, return_dict=False)
    assert model.generate(torch.tensor([ids]), max_new_tokens=4).shape[1] > len(ids)
    assert model.config.use_cache
    assert result.metrics["trainable_parameters"] == model.num_parameters()


def test_all_weights_change(tiny_base: Path, uninterrupted_run: Run):
    before = AutoModelForCausalLM.from_pretrained(tiny_base).state_dict()
    after = weights(uninterrupted_run[0])
    assert after.keys() <= before.keys()
    assert not [name for name, tensor in after.items() if torch.equal(tensor, before[name])]


def test_the_untrained_model_is_the_reference_and_good_answers_gain_on_bad_ones(
    tiny_base: Path, uninterrupted_run: Run
):
    result, listener = uninterrupted_run
    assert listener.losses[1] == pytest.approx(math.log(2), abs=1e-5)
    assert gain(tiny_base, result) > 5


def test_an_interrupted_training_resumes_to_the_same_model(tiny_base: Path, tmp_path: Path, uninterrupted_run: Run):
    rest = Listener()
    resumed = stop_and_go_on(dpo.train, job(tiny_base, tmp_path, **FULL), rest, step=3)
    assert rest.losses == {step: loss for step, loss in uninterrupted_run[1].losses.items() if step > 3}
    assert same_weights(resumed, uninterrupted_run[0])


def test_bf16_computes_with_weights_that_stay_in_float32(tiny_base: Path, tmp_path: Path):
    result = dpo.train(job(tiny_base, tmp_path, precision="bf16", **FULL), silent)
    assert {tensor.dtype for tensor in weights(result).values()} == {torch.float32}
    assert result.final_loss < 0.6


def test_two_processes_have_the_losses_of_one(tiny_base: Path, tmp_path: Path, uninterrupted_run: Run):
    result = two_processes.train("dpo", job(tiny_base, tmp_path, **FULL))
    alone, together = weights(uninterrupted_run[0]), weights(result)
    assert result.series("loss") == pytest.approx(uninterrupted_run[0].series("loss"), abs=1e-4)
    assert all(torch.allclose(alone[name], together[name], atol=1e-4) for name in alone)


def test_kto_is_held_near_what_it_imitated_and_does_not_imitate_again(
    tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("trl.trainer.kto_trainer.create_model_from_path", no_copy)
    start = {**FULL, "sft_epochs": 2.0, "epochs": 1.0}
    first = Listener()

    def until_it_learns(event: str, values: dict[str, Any]) -> None:
        first(event, values)
        if event == "step" and "kl" in values["metrics"]:
            raise Interrupted("stopped by a test")

    with pytest.raises(Interrupted):
        kto.train(job(tiny_base, tmp_path, labelled_rows(24), **start), until_it_learns)
    assert "imitates 16 good answers first" in first.log
    last = first.events[-1][1]["metrics"]
    rewards = [last[name] for name in ("chosen_reward", "rejected_reward") if name in last]
    assert [last["kl"], *rewards] == pytest.approx([0.0] * (1 + len(rewards)), abs=1e-4)
    rest = Listener()
    result = kto.train(job(tiny_base, tmp_path, labelled_rows(24), resume=True, **start), rest)
    assert "imitates" not in rest.log
    assert gain(tiny_base, result) > 5


def test_grpo_is_held_near_what_it_imitated(answering_base: Path, tmp_path: Path):
    """A copy of the untrained model would be far from it at the first step."""
    listener = Listener()
    options = {**FULL, "learning_rate": 1e-4, "sft_epochs": 2.0, "rollouts": "offline"}
    stored = test_grpo.job(answering_base, tmp_path, test_grpo.stored_rows(), scorer=None, **options)
    result = grpo.train(stored, listener)
    learned = [values["metrics"] for event, values in listener.events if event == "step" and "kl" in values["metrics"]]
    assert learned[0]["kl"] == pytest.approx(0, abs=1e-5)
    assert learned[-1]["kl"] > 1e-3
    assert test_grpo.gain(answering_base, result) > test_grpo.MARGIN


def test_grpo_answers_with_the_model_that_it_trains(answering_base: Path, tmp_path: Path):
    result = grpo.train(test_grpo.job(answering_base, tmp_path, **{**FULL, "learning_rate": 5e-4}), silent)
    assert test_grpo.gain(answering_base, result) > test_grpo.MARGIN


def test_a_reward_model_is_trained_with_its_head(tiny_base: Path, tmp_path: Path):
    result = reward_model.train(test_reward_model.job(tiny_base, tmp_path, **FULL), silent)
    assert result.metrics["heldout_accuracy"] == 1
    assert is_reward_model(result.weights_dir)
    again = reward_scoring.score_pairs(reward_scoring.load(result.weights_dir), HELD_OUT, silent)
    assert fmean(score.margin for score in again if score) == pytest.approx(result.metrics["heldout_margin"])
    compared = {"base": None, "new": result.weights_dir}
    scores = reward_scoring.score_versions(str(tiny_base), compared, HELD_OUT, max_length=128, report=silent)
    assert ({score.credit for score in scores["base"] if score}, scores["new"]) == ({0.5}, again)


def answers(base: Path, whole: Path | None) -> list[Any]:
    answers_of = answer_versions(str(base), {"x": whole}, HELD_OUT, max_length=128, max_new_tokens=8, report=silent)
    return answers_of["x"]


def margins(base: Path, whole: Path | None) -> list[Any]:
    return score_versions(str(base), {"x": whole}, HELD_OUT, max_length=128, report=silent)["x"]


@pytest.mark.parametrize("measured", [answers, margins])
def test_beside_its_base_it_is_measured_as_itself(
    tiny_base: Path, uninterrupted_run: Run, measured: Callable[[Path, Path | None], list[Any]]
):
    model = uninterrupted_run[0].weights_dir
    assert measured(tiny_base, model) == measured(model, None)


def test_a_model_that_was_measured_is_not_kept_in_memory(tiny_base: Path, uninterrupted_run: Run):
    with loading.with_weights(loading.load_base(str(tiny_base)), uninterrupted_run[0].weights_dir) as model:
        assert not next(model.parameters()).is_meta
    assert all(weight.is_meta for weight in model.parameters())


def test_a_model_that_is_damaged_is_one_clear_error(tiny_base: Path, tmp_path: Path, uninterrupted_run: Run):
    config = json.loads((uninterrupted_run[0].weights_dir / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config))
    base = loading.load_base(str(tiny_base))
    with pytest.raises(TrainingFailed, match=r"is not a whole model: model\.safetensors is missing"):
        loading.with_weights(base, tmp_path).__enter__()
