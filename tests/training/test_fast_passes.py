"""What rows of a pass have in common is computed once, and a run learns what it learned without that."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from django.test import override_settings

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
GUIDE = " ".join(f"Article {number} of the house costs {number * 7} crowns." for number in range(5))
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
    values = {**SMALL, "lora_dropout": 0.0, "max_length": 512, "max_steps": 3, **of_method, **overrides}
    listener = Listener(stop_at)
    task = job(base, folder, rows=with_guide(rows()), resume=resume)
    return module.train(replace(task, config=config_class(name)().with_overrides(values)), listener), listener


@contextmanager
def counted() -> Iterator[list[int]]:
    """Of each pass through the layers, how many positions."""
    read: list[int] = []

    def counting(load: Callable[..., Any]) -> Callable[..., Any]:
        def load_and_count(*arguments: Any) -> Any:
            model = load(*arguments)
            model.base_model.layers[-1].register_forward_hook(
                lambda module, given, output: read.append(output.shape[:2].numel())
            )
            return model

        return load_and_count

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "load_base", counting(loading.load_base))
        patch.setattr(reward_model, "load_scoring_base", counting(reward_model.load_scoring_base))
        yield read


@dataclass(frozen=True)
class Run:
    result: TrainingResult
    listener: Listener
    positions: int
    scored: Path
    """The DATA_DIR with what it has scored."""

    @property
    def losses(self) -> list[float]:
        return list(self.listener.losses.values())


@pytest.fixture(scope="module")
def run_of(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """``run_of("dpo", fast=False)``: each is made once, with nothing scored before."""
    made: dict[str, Run] = {}

    def of(name: str, **overrides: Any) -> Run:
        if (key := f"{name} {sorted(overrides.items())}") not in made:
            folder = tmp_path_factory.mktemp(name)
            with override_settings(DATA_DIR=folder / "data"), counted() as positions:
                result, listener = train(name, tiny_base, folder, **overrides)
            made[key] = Run(result, listener, sum(positions), folder / "data")
        return made[key]

    return of


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("layers", [0, 1], ids=["all layers", "the top layer"])
def test_the_losses_are_those_of_whole_rows(name: str, layers: int, run_of: Callable[..., Run]):
    if name == "grpo" and layers:
        pytest.skip("fresh answers are read once: nothing is kept")
    shared, plain = run_of(name, train_layers=layers), run_of(name, train_layers=layers, **NOT_SHARED)
    assert USED in shared.listener.log
    assert USED not in plain.listener.log
    assert shared.losses == pytest.approx(plain.losses, abs=1e-4)
    assert len(set(shared.losses)) > 1


@pytest.mark.parametrize("name", METHODS)
def test_a_pass_reads_the_instructions_that_all_rows_share_once(name: str, run_of: Callable[..., Run]):
    shared, plain = run_of(name, train_layers=0), run_of(name, train_layers=0, **NOT_SHARED)
    assert shared.positions < plain.positions / 2


def test_a_stopped_run_goes_on_to_the_same_weights(tiny_base: Path, tmp_path: Path, run_of: Callable[..., Run]):
    with pytest.raises(Interrupted):
        train("dpo", tiny_base, tmp_path, stop_at=2)
    resumed, _ = train("dpo", tiny_base, tmp_path, resume=True)
    assert same_weights(run_of("dpo", train_layers=0).result, resumed)


def test_scores_of_versions_are_those_of_whole_rows(
    tiny_base: Path, run_of: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
):
    adapters = {"base": None, "new": run_of("dpo", train_layers=0).result.weights_dir}
    pairs = with_guide(polite_rows())

    def score() -> tuple[list[float], int]:
        with counted() as positions:
            scores = scoring.score_versions(str(tiny_base), adapters, pairs, max_length=512, report=silent)
        values = [(pair.chosen_logp, pair.rejected_logp) for of_name in scores.values() for pair in of_name if pair]
        return [value for both in values for value in both], sum(positions)

    shared, read = score()
    monkeypatch.setattr(scoring, "shared_tokens", lambda model, report: torch.no_grad())
    plain, read_of_plain = score()
    assert shared == pytest.approx(plain, abs=1e-3)
    assert read < read_of_plain / 3


def test_a_reward_model_gives_the_numbers_of_single_answers(run_of: Callable[..., Run]):
    model: RewardModel = load(run_of("reward_model", train_layers=0).result.weights_dir)
    rows = [{"prompt": row["prompt"], "completion": row["chosen"]} for row in with_guide(polite_rows())]
    together = model.numbers(rows, silent)
    assert together == pytest.approx([model.numbers([row], silent)[0] for row in rows], abs=1e-4)


@pytest.mark.parametrize(("name", "scored"), [("dpo", 2 * 4), ("mpo", 2 * 4), ("kto", 2 * 4)])
def test_only_rows_that_a_short_run_comes_to_are_scored_under_the_reference(
    name: str, scored: int, run_of: Callable[..., Run]
):
    whole, short = run_of(name, train_layers=0), run_of(name, train_layers=0, max_steps=2)
    assert short.losses[0] == pytest.approx(whole.losses[0], abs=1e-5)
    assert answers_scored(short.listener) < answers_scored(whole.listener)
    assert answers_scored(short.listener) <= 3 * scored
    assert all(map(math.isfinite, short.losses))


def test_a_second_run_reads_what_the_first_has_scored_and_loses_as_much(
    tiny_base: Path, tmp_path: Path, run_of: Callable[..., Run], settings: Any
):
    first = run_of("dpo", train_layers=0)
    settings.DATA_DIR = first.scored
    second, of_second = train("dpo", tiny_base, tmp_path)
    assert "24 of 24 answers were scored before" in of_second.log
    assert "scored before" not in first.listener.log
    assert of_second.losses == first.listener.losses
    assert same_weights(first.result, second)


def test_a_version_is_compared_by_what_its_training_has_scored(
    tiny_base: Path, run_of: Callable[..., Run], settings: Any
):
    run = run_of("dpo", train_layers=0)
    settings.DATA_DIR = run.scored
    listener, compared = Listener(), {"base": None, "new": run.result.weights_dir}
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
