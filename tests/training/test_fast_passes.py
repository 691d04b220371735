"""What rows of a pass have in common is computed once, and a run learns what it learned without that."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rl.base.errors import Interrupted
from rl.base.records import TrainingResult, silent
from rl.config import config_class
from rl.evaluation.torch import scoring
from rl.lm import loading
from rl.training import dpo, grpo, kto, mpo, reward_model
from rl.training.reward_scoring import RewardModel, load
from tests.training import test_grpo, test_kto, test_mpo
from tests.training.conftest import SMALL, Listener, Row, job, message, mixed_rows, polite_rows, same_weights

pytestmark = pytest.mark.learn

Rows = Callable[[], list[Row]]
USED = "beginnings that rows share are computed once a pass"
GUIDE = " ".join(f"Article {number} of the house costs {number * 7} crowns." for number in range(12))
NOT_SHARED = {"fast": False}


def with_guide(rows: list[Row]) -> list[Row]:
    """All rows begin with the same instructions."""
    return [{**row, "prompt": [message("system", GUIDE), *row["prompt"]]} for row in rows]


METHODS: dict[str, tuple[Any, Rows, dict[str, Any]]] = {
    "dpo": (dpo, polite_rows, {}),
    "kto": (kto, test_kto.labelled_rows, {}),
    "mpo": (mpo, test_mpo.mixed_rows, {}),
    "reward_model": (reward_model, mixed_rows, {}),
    "grpo": (grpo, test_grpo.stored_rows, {"rollouts": "offline", "num_generations": 4, "gradient_accumulation": 2}),
}


def train(
    name: str, base: Path, folder: Path, *, stop_at: int | None = None, resume: bool = False, **overrides: Any
) -> tuple[TrainingResult, Listener]:
    module, rows, of_method = METHODS[name]
    values = {**SMALL, "lora_dropout": 0.0, "max_length": 512, **of_method, **overrides}
    listener = Listener(stop_at)
    task = job(base, folder, rows=with_guide(rows()), resume=resume)
    return module.train(replace(task, config=config_class(name)().with_overrides(values)), listener), listener


@pytest.fixture
def positions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of each pass through the layers, how many."""
    read: list[int] = []

    def counting(load: Callable[..., Any]) -> Callable[..., Any]:
        def load_and_count(*arguments: Any) -> Any:
            model = load(*arguments)
            model.base_model.layers[-1].register_forward_hook(
                lambda module, given, output: read.append(output.shape[:2].numel())
            )
            return model

        return load_and_count

    monkeypatch.setattr(loading, "load_base", counting(loading.load_base))
    monkeypatch.setattr(reward_model, "load_scoring_base", counting(reward_model.load_scoring_base))
    return read


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("layers", [0, 1], ids=["all layers", "the top layer"])
def test_the_losses_are_those_of_whole_rows(name: str, layers: int, tiny_base: Path, tmp_path: Path):
    if name == "grpo" and layers:
        pytest.skip("fresh answers are read once: nothing is kept")
    _, shared = train(name, tiny_base, tmp_path / "shared", train_layers=layers)
    _, plain = train(name, tiny_base, tmp_path / "plain", train_layers=layers, **NOT_SHARED)
    assert USED in shared.log
    assert USED not in plain.log
    assert list(shared.losses.values()) == pytest.approx(list(plain.losses.values()), abs=1e-4)
    assert len(set(shared.losses.values())) > 1


@pytest.mark.parametrize("name", METHODS)
def test_a_pass_reads_the_instructions_that_all_rows_share_once(
    name: str, tiny_base: Path, tmp_path: Path, positions: list[int]
):
    train(name, tiny_base, tmp_path / "shared")
    shared = sum(positions)
    positions.clear()
    train(name, tiny_base, tmp_path / "plain", **NOT_SHARED)
    assert shared < sum(positions) / 2


def test_a_stopped_run_goes_on_to_the_same_weights(tiny_base: Path, tmp_path: Path):
    whole, _ = train("dpo", tiny_base, tmp_path / "whole")
    with pytest.raises(Interrupted):
        train("dpo", tiny_base, tmp_path / "stopped", stop_at=3)
    resumed, _ = train("dpo", tiny_base, tmp_path / "stopped", resume=True)
    assert same_weights(whole, resumed)


def test_scores_of_versions_are_those_of_whole_rows(
    tiny_base: Path, tmp_path: Path, positions: list[int], monkeypatch: pytest.MonkeyPatch
):
    result, _ = train("dpo", tiny_base, tmp_path)
    adapters, pairs = {"base": None, "new": result.weights_dir}, with_guide(polite_rows())

    def score() -> list[float]:
        positions.clear()
        scores = scoring.score_versions(str(tiny_base), adapters, pairs, max_length=512, report=silent)
        return [
            value for of_name in scores.values() for pair in of_name for value in (pair.chosen_logp, pair.rejected_logp)
        ]

    shared, read = score(), sum(positions)
    monkeypatch.setattr(scoring, "shared_tokens", lambda model, report: torch.no_grad())
    assert shared == pytest.approx(score(), abs=1e-3)
    assert read < sum(positions) / 5


def test_a_reward_model_gives_the_numbers_of_single_answers(tiny_base: Path, tmp_path: Path):
    result, _ = train("reward_model", tiny_base, tmp_path)
    model: RewardModel = load(result.weights_dir)
    rows = [{"prompt": row["prompt"], "completion": row["chosen"]} for row in with_guide(polite_rows())]
    together = model.numbers(rows, silent)
    assert together == pytest.approx([model.numbers([row], silent)[0] for row in rows], abs=1e-4)


@pytest.mark.parametrize(("name", "scored"), [("dpo", 2 * 4), ("mpo", 2 * 4), ("kto", 2 * 4)])
def test_only_rows_that_a_short_run_comes_to_are_scored_under_the_reference(
    name: str, scored: int, tiny_base: Path, tmp_path: Path
):
    _, whole = train(name, tiny_base, tmp_path / "whole")
    _, short = train(name, tiny_base, tmp_path / "short", max_steps=2)
    assert list(short.losses.values())[0] == pytest.approx(list(whole.losses.values())[0], abs=1e-5)
    assert answers_scored(short) < answers_scored(whole)
    assert answers_scored(short) <= 3 * scored
    assert all(map(math.isfinite, short.losses.values()))


def test_a_second_run_reads_what_the_first_has_scored_and_loses_as_much(
    tiny_base: Path, tmp_path: Path, data_dir: Path
):
    first, of_first = train("dpo", tiny_base, tmp_path / "first")
    second, of_second = train("dpo", tiny_base, tmp_path / "second")
    assert "24 of 24 answers were scored before" in of_second.log
    assert "scored before" not in of_first.log
    assert of_second.losses == of_first.losses
    assert same_weights(first, second)


def test_a_version_is_compared_by_what_its_training_has_scored(tiny_base: Path, tmp_path: Path, data_dir: Path):
    result, _ = train("dpo", tiny_base, tmp_path)
    listener, compared = Listener(), {"base": None, "new": result.weights_dir}
    for _ in range(2):
        scoring.score_versions(str(tiny_base), compared, with_guide(polite_rows()), max_length=512, report=listener)
    assert listener.log.splitlines() == ["24 of 24 answers were scored before"] * 3  # the base model's, then both


def answers_scored(listener: Listener) -> int:
    begins = next(
        number
        for number, (event, values) in enumerate(listener.events)
        if values.get("name") == "scoring under the base model"
    )
    return next(values["total_steps"] for event, values in listener.events[begins:] if event == "step")
