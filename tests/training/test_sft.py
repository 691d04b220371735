from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import Interrupted, NotEnoughData
from rl.config import MPOConfig, TrainingConfig
from rl.config.training_job import TrainingJob
from rl.data_formatter.jsonl import UNSEEN, read_unseen
from rl.training import mpo, sft
from tests.training import conftest
from tests.training.conftest import Listener, Row, same_weights
from tests.training.test_mpo import mixed_rows, pair, single

pytestmark = pytest.mark.learn

STEADY: dict[str, Any] = {"lora_dropout": 0.0, "epochs": 20.0}


def classes(count: int = 12) -> list[Row]:
    """The answer is told by the question's first word."""
    return [
        pair(conftest.row(f"{'Money' if number % 2 else 'Card'} question {number}?", *_answers(number)))
        for number in range(count)
    ]


def _answers(number: int) -> tuple[str, str]:
    return ("cash", "cards") if number % 2 else ("cards", "cash")


def job(base: Path, folder: Path, rows: list[Row], resume: bool = False, **overrides: Any) -> TrainingJob:
    config = TrainingConfig().with_overrides({**conftest.SMALL, **overrides})
    return replace(conftest.job(base, folder, rows, resume), config=config)


def cross_fitted(base: Path, folder: Path, resume: bool = False, **overrides: Any) -> TrainingJob:
    rows = classes()
    tested = tuple(row["prompt_key"] for row in rows[:6])
    return replace(job(base, folder, rows, resume, **overrides), folds=2, tested=tested)


def test_accepted_answers_become_likelier_and_disliked_ones_are_left_out(tiny_base: Path, tmp_path: Path) -> None:
    listener = Listener()
    result = sft.train(job(tiny_base, tmp_path, mixed_rows(), epochs=4.0), listener)
    assert "imitates 8 accepted answers; 4 that are only disliked teach it nothing" in listener.log
    losses = [loss for _, loss in sorted(listener.losses.items())]
    assert losses[-1] < losses[0]
    assert (result.weights_dir / "adapter_config.json").is_file()


def test_where_nothing_is_accepted_it_says_so(tiny_base: Path, tmp_path: Path) -> None:
    disliked = [single(row, good=False) for row in conftest.polite_rows(4)]
    with pytest.raises(NotEnoughData, match="no row of .* has an accepted answer that fits"):
        sft.train(job(tiny_base, tmp_path, disliked), Listener())


def test_mpo_without_preferences_is_imitation(tiny_base: Path, tmp_path: Path) -> None:
    alone = sft.train(job(tiny_base, tmp_path / "sft", classes(), **STEADY), Listener())
    config = MPOConfig().with_overrides({**conftest.SMALL, **STEADY, "preferences": False, "sft_epochs": 1.0})
    listener = Listener()
    mixed = mpo.train(replace(job(tiny_base, tmp_path / "mpo", classes()), config=config), listener)
    assert same_weights(alone, mixed)
    assert any("--sft-first changes nothing" in str(values) for _, values in listener.events)


def test_each_tested_prompt_is_answered_by_an_adapter_that_has_not_learned_it(tiny_base: Path, tmp_path: Path) -> None:
    listener = Listener()
    asked = cross_fitted(tiny_base, tmp_path)
    result = sft.train(asked, listener)
    assert read_unseen(asked.output_dir / UNSEEN).keys() == set(asked.tested)
    stages = [values["name"] for event, values in listener.events if event == "stage"]
    assert stages[-3:] == ["learning without part 1 of 2", "learning without part 2 of 2", "training"]
    # twelve rows, four a step, two passes: the run itself learns from all of them
    assert result.steps == 6


def test_the_answers_to_tested_prompts_keep_to_the_schema_that_is_served(tiny_base: Path, tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"team": {"enum": ["cards", "cash"]}}, "required": ["team"]}
    asked = replace(cross_fitted(tiny_base, tmp_path), schema=schema)
    sft.train(asked, Listener())
    assert {answer.text[0] for answer in read_unseen(asked.output_dir / UNSEEN).values()} == {"{"}


def test_a_run_that_goes_on_does_not_ask_the_parts_again(tiny_base: Path, tmp_path: Path) -> None:
    def stop_while_it_trains(event: str, values: dict[str, Any]) -> None:
        listener(event, values)
        if values.get("name") == "training":
            raise Interrupted("stopped by a test")

    listener = Listener()
    with pytest.raises(Interrupted):
        sft.train(cross_fitted(tiny_base, tmp_path), stop_while_it_trains)
    goes_on = Listener()
    sft.train(cross_fitted(tiny_base, tmp_path, resume=True), goes_on)
    stages = [values["name"] for event, values in goes_on.events if event == "stage"]
    assert "training" in stages
    assert not [stage for stage in stages if stage.startswith("learning without")]


def test_prompts_with_the_same_accepted_answer_are_spread_over_the_parts() -> None:
    from rl.training.cross_fitting import deal

    accepted = {f"k{number}": ("cards", "Cards.", "cash", "identity")[number // 6] for number in range(24)}
    parts = deal(accepted, 3, accepted)
    assert sorted(parts.values()) == [*[0] * 8, *[1] * 8, *[2] * 8]
    for name, count in (("cash", 2), ("identity", 2)):
        of_class = [parts[key] for key, answer in accepted.items() if answer == name]
        assert {part: of_class.count(part) for part in range(3)} == dict.fromkeys(range(3), count)
