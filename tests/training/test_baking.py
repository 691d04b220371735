"""Answers under an instruction, made to be imitated without it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import NotEnoughData
from rl.base.records import silent
from rl.config import SFTConfig
from rl.config.training_job import TrainingJob
from rl.training import baking
from rl.training.baking import FILE, with_baked_rows
from rl.training.judged_rows import Sampler
from tests.training import conftest
from tests.training.conftest import Listener, Row, polite_rows
from tests.training.test_mpo import mixed_rows, pair

pytestmark = pytest.mark.learn

BRIEF = "Be brief."
LOOP = "Please wait a little. " * 8


def job(base: Path, folder: Path, rows: list[Row], resume: bool = False, **overrides: Any) -> TrainingJob:
    config = SFTConfig().with_overrides({**conftest.SMALL, "instruction": BRIEF, "bake_in": True, **overrides})
    return replace(conftest.job(base, folder, rows, resume), config=config)


def baked(made: TrainingJob, listener: Any = silent) -> list[Row]:
    return [json.loads(line) for line in with_baked_rows(made, listener).train_rows.read_text().splitlines()]


def test_the_judges_choice_among_answers_under_the_instruction_is_learned_without_it(
    answering_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    listener, asked, ask = Listener(), list[str](), Sampler.ask

    def listen(sampler: Sampler, rows: Any, rated: Any) -> Any:
        asked.extend(row["prompt"][-1]["content"] for row in rows)
        return ask(sampler, rows, rated)

    monkeypatch.setattr(Sampler, "ask", listen)
    rows = [pair(row) for row in polite_rows(40)[16:]]
    made = baked(job(answering_base, tmp_path, rows, max_length=128), listener)
    assert len(asked) == len(rows)
    assert all(question.endswith(f"\n\n{BRIEF}") for question in asked)
    questions = {row["prompt_key"]: row["prompt"] for row in rows}
    assert all(row["prompt"] == questions[row["prompt_key"]] and not row["rejected"] for row in made)
    assert len(made) >= 20
    assert sum(row["chosen"][0]["content"].startswith("Thank") for row in made) > 0.8 * len(made)
    assert f"{len(made)} answers under the instruction to imitate without it, the best by a judge" in listener.log


def test_broken_answers_are_not_learned_and_without_others_nothing_is(
    tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    texts = [LOOP, "It comes tomorrow.", " "]
    monkeypatch.setattr(Sampler, "ask", lambda _, rows, rated: [(row, texts) for row in rows])
    made, listener = job(tiny_base, tmp_path, mixed_rows(9)), Listener()
    assert {row["chosen"][0]["content"] for row in baked(made, listener)} == {"It comes tomorrow."}
    assert "without a judge, as there are few ratings" in listener.log
    texts.remove("It comes tomorrow.")
    with pytest.raises(NotEnoughData, match="try another instruction"):
        baked(made)


def test_a_resumed_run_goes_on_with_the_same_answers(tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first = job(tiny_base, tmp_path, mixed_rows(9))
    first.output_dir.mkdir(parents=True, exist_ok=True)
    (first.output_dir / FILE).write_text("{}\n")
    monkeypatch.setattr(baking, "_bake", lambda *_: [{"made": "anew"}])
    assert baked(job(tiny_base, tmp_path, mixed_rows(9), resume=True)) == [{}]
    assert baked(first) == [{"made": "anew"}]
