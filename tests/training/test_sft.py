from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import Interrupted, NotEnoughData
from rl.base.records import TrainingResult, silent
from rl.config import MPOConfig, TrainingConfig
from rl.config.training_job import TrainingJob
from rl.data_formatter.jsonl import UNSEEN, read_unseen
from rl.evaluation.torch.scoring import score_versions
from rl.training import mpo, sft
from rl.training.cross_fitting import Curve, deal, step_at
from tests.training import conftest
from tests.training.conftest import (
    Listener,
    Row,
    kill_and_go_on,
    polite_rows,
    same_weights,
    stop_and_go_on,
)
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


def test_accepted_answers_become_likelier_and_disliked_ones_are_left_out(tiny_base: Path, tmp_path: Path):
    listener = Listener()
    result = sft.train(job(tiny_base, tmp_path, mixed_rows(), epochs=4.0), listener)
    assert "imitates 8 accepted answers; 4 that are only disliked teach it nothing" in listener.log
    losses = [loss for _, loss in sorted(listener.losses.items())]
    assert losses[-1] < losses[0]
    assert (result.weights_dir / "adapter_config.json").is_file()


def test_where_nothing_is_accepted_it_says_so(tiny_base: Path, tmp_path: Path):
    disliked = [single(row, good=False) for row in conftest.polite_rows(4)]
    with pytest.raises(NotEnoughData, match="no row of .* has an accepted answer that fits"):
        sft.train(job(tiny_base, tmp_path, disliked), Listener())


def test_mpo_without_preferences_is_imitation(tiny_base: Path, tmp_path: Path):
    alone = sft.train(job(tiny_base, tmp_path / "sft", classes(), **STEADY), Listener())
    config = MPOConfig().with_overrides({**conftest.SMALL, **STEADY, "preferences": False, "sft_epochs": 1.0})
    listener = Listener()
    mixed = mpo.train(replace(job(tiny_base, tmp_path / "mpo", classes()), config=config), listener)
    assert same_weights(alone, mixed)
    assert any("--sft-first changes nothing" in str(values) for _, values in listener.events)


def test_each_tested_prompt_is_answered_by_an_adapter_that_has_not_learned_it(tiny_base: Path, tmp_path: Path):
    listener = Listener()
    asked = cross_fitted(tiny_base, tmp_path)
    result = sft.train(asked, listener)
    assert read_unseen(asked.output_dir / UNSEEN).keys() == set(asked.tested)
    stages = [values["name"] for event, values in listener.events if event == "stage"]
    assert stages[-3:] == ["learning without part 1 of 2", "learning without part 2 of 2", "training"]
    # twelve rows, four a step, two passes: the run itself learns from all of them
    assert result.steps == 6


def test_the_answers_to_tested_prompts_keep_to_the_schema_that_is_served(tiny_base: Path, tmp_path: Path):
    schema = {"type": "object", "properties": {"team": {"enum": ["cards", "cash"]}}, "required": ["team"]}
    asked = replace(cross_fitted(tiny_base, tmp_path), schema=schema)
    sft.train(asked, Listener())
    assert {answer.text[0] for answer in read_unseen(asked.output_dir / UNSEEN).values()} == {"{"}


def test_a_run_that_goes_on_does_not_ask_the_parts_again(tiny_base: Path, tmp_path: Path):
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


def test_prompts_with_the_same_accepted_answer_are_spread_over_the_parts():
    accepted = {f"k{number}": ("cards", "Cards.", "cash", "identity")[number // 6] for number in range(24)}
    parts = deal(accepted, 3, accepted)
    assert sorted(parts.values()) == [*[0] * 8, *[1] * 8, *[2] * 8]
    for name, count in (("cash", 2), ("identity", 2)):
        of_class = [parts[key] for key, answer in accepted.items() if answer == name]
        assert {part: of_class.count(part) for part in range(3)} == dict.fromkeys(range(3), count)


def test_the_points_of_all_parts_are_added_and_kept_for_a_run_that_goes_on(tmp_path: Path):
    curve = Curve(tmp_path, goes_on=False)
    curve.add(4, Counter({0.25: 1, 0.5: 1, 0.75: 2, 1.0: 3}))
    curve.add(4, Counter({0.5: 1, 0.75: 2, 1.0: 3}))
    resumed = Curve(tmp_path, goes_on=True)
    assert resumed.at_steps(40) == {10: 0.125, 20: 0.25, 30: 0.5, 40: 0.75}
    assert resumed.describe() == (
        "right answers to 8 prompts, each by an adapter that does not learn from it: "
        "1 at a quarter of the steps, 2 at a half, 4 at three quarters, 6 at the end"
    )
    assert Curve(tmp_path, goes_on=False).at_steps(40) == {}


def test_a_short_training_has_fewer_points():
    assert [step_at(share, 2) for share in (0.25, 0.5, 0.75, 1.0)] == [1, 1, 2, 2]


def test_a_run_draws_along_its_steps_how_many_held_out_answers_are_right(tiny_base: Path, tmp_path: Path):
    listener = Listener()
    asked = cross_fitted(tiny_base, tmp_path, epochs=4.0)
    result = sft.train(asked, listener)
    points = {number: step["right"] for number, step in enumerate(result.history, 1) if "right" in step}
    assert set(points) == {3, 6, 9, 12}
    told = {v["step"]: v["metrics"]["right"] for e, v in listener.events if e == "step" and "right" in v["metrics"]}
    assert told == points
    answers = read_unseen(asked.output_dir / UNSEEN)
    accepted = {row["prompt_key"]: row["chosen"][0]["content"] for row in classes()[:6]}
    assert points[12] == sum(answers[key].text.strip() == text for key, text in accepted.items()) / 6
    assert "right answers to 6 prompts" in listener.log


def test_the_trainings_without_a_part_draw_nothing_themselves(tiny_base: Path, tmp_path: Path):
    listener = Listener()
    sft.train(cross_fitted(tiny_base, tmp_path), listener)
    begins = [number for number, (_, values) in enumerate(listener.events) if values.get("name") == "training"]
    before = [values for event, values in listener.events[: begins[0]] if event == "step"]
    assert before
    assert not any(values["metrics"] for values in before)


@pytest.fixture(scope="module")
def uninterrupted_run(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainingResult:
    return sft.train(conftest.job(tiny_base, tmp_path_factory.mktemp("whole"), accepted_rows()), silent)


def accepted_rows(count: int = 12) -> list[Row]:
    return [pair(row) for row in polite_rows(count)]


def test_accepted_answers_to_new_questions_become_likelier(tiny_base: Path, tmp_path: Path):
    result = sft.train(conftest.job(tiny_base, tmp_path, accepted_rows(48), epochs=4.0), silent)
    adapters = {"base": None, "tuned": result.weights_dir}
    scores = score_versions(str(tiny_base), adapters, polite_rows(60)[48:], max_length=128, report=silent)
    gains = [new.chosen_logp - old.chosen_logp for new, old in zip(scores["tuned"], scores["base"], strict=True)]
    assert min(gains) > 1, "each question's good answer gained at least a nat"


@pytest.mark.parametrize("go_on", [stop_and_go_on, kill_and_go_on])
def test_a_stopped_training_resumes_to_the_same_adapter(
    tiny_base: Path, tmp_path: Path, uninterrupted_run: TrainingResult, go_on: Any
):
    assert same_weights(
        go_on(sft.train, conftest.job(tiny_base, tmp_path, accepted_rows(), save_steps=2)), uninterrupted_run
    )
