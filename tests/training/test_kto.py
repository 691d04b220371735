import random
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from transformers import AutoTokenizer

from rl.base.errors import BadFile, NotEnoughData
from rl.base.records import TrainingResult, silent
from rl.config import TrainingConfig
from rl.evaluation.torch.scoring import score_versions
from rl.lm.lengths import TokenLimits
from rl.training import kto
from rl.training.kto import at_least_two_rows_a_pass, in_passes_of_a_kind, with_other_answers
from rl.training.preparing import Start
from tests.training.conftest import (
    Listener,
    Row,
    job,
    kill_and_go_on,
    message,
    picture,
    polite_rows,
    same_weights,
    stop_and_go_on,
)

pytestmark = pytest.mark.learn

Run = tuple[TrainingResult, Listener]


def single(prompt: str, answer: str, label: object) -> Row:
    return {"prompt": [message("user", prompt)], "completion": [message("assistant", answer)], "label": label}


def labelled_rows(count: int = 12) -> list[Row]:
    """Thanks are good and waiting is bad; nobody was asked twice."""
    answers = ((row["prompt"][0]["content"], row) for row in polite_rows(count))
    return [
        single(prompt, row["rejected" if number % 3 == 0 else "chosen"][0]["content"], number % 3 != 0)
        for number, (prompt, row) in enumerate(answers)
    ]


@pytest.fixture(scope="module")
def uninterrupted_run(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    listener = Listener()
    return kto.train(job(tiny_base, tmp_path_factory.mktemp("whole"), labelled_rows()), listener), listener


def test_it_says_how_much_the_rarer_label_counts(uninterrupted_run: Run):
    result, listener = uninterrupted_run
    assert "8 good and 4 bad answers: a good one counts 1.00 times, a bad one 2.00 times" in listener.log
    assert {"loss", "kl", "margin"} <= result.metrics.keys()
    assert result.steps == 6


def test_good_answers_to_new_questions_become_likelier_than_bad_ones(tiny_base: Path, tmp_path: Path):
    """Measured with seeds 1 to 3."""
    rows = labelled_rows(48)
    random.Random(1).shuffle(rows)
    result = kto.train(job(tiny_base, tmp_path, rows, seed=1, epochs=4.0), silent)
    picture(result, "kto")
    adapters = {"base": None, "tuned": result.weights_dir}
    held_out = polite_rows(60)[48:]
    scores = score_versions(str(tiny_base), adapters, held_out, max_length=128, report=silent)
    gains = [new.margin - old.margin for new, old in zip(scores["tuned"], scores["base"], strict=True)]
    assert min(gains) > 1, "each question's good answer gained at least a nat on the bad one"


def test_rows_alone_in_a_forward_pass_are_put_together(tiny_base: Path, tmp_path: Path):
    listener = Listener()
    result = kto.train(job(tiny_base, tmp_path, labelled_rows(), batch_size=1, gradient_accumulation=4), listener)
    assert "2 rows a pass and 2 passes a step" in listener.log
    assert result.steps == 6


def test_scoring_the_base_model_once_gives_the_losses_of_scoring_it_every_time(
    tiny_base: Path, tmp_path: Path, uninterrupted_run: Run, monkeypatch: pytest.MonkeyPatch
):
    every_time = Listener()
    monkeypatch.setattr(kto._Trainer, "use_reference", lambda *args: None)
    kto.train(job(tiny_base, tmp_path, labelled_rows()), every_time)
    assert list(uninterrupted_run[1].losses.values()) == pytest.approx(list(every_time.losses.values()), abs=1e-5)


def test_the_answer_to_compare_with_is_that_of_the_row_before_in_the_pass(tiny_base: Path, tmp_path: Path):
    tokenizer = AutoTokenizer.from_pretrained(tiny_base)
    start = Start(
        job(tiny_base, tmp_path, labelled_rows(), batch_size=3), silent, tmp_path, None, tokenizer, TokenLimits(5, 5)
    )
    rows = Dataset.from_list([{"prompt_ids": [0] * 3, "completion_ids": [i] * 4, "label": True} for i in range(5)])
    paired = with_other_answers(rows, start, "KL_completion_ids", itemgetter("completion_ids"))
    assert paired["KL_completion_ids"] == [[2, 2], [0, 0], [1, 1], [4, 4], [3, 3]]


def test_two_processes_have_two_rows_each(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    enough = at_least_two_rows_a_pass(TrainingConfig(batch_size=2, gradient_accumulation=8), silent)
    assert (enough.batch_size, enough.gradient_accumulation) == (4, 4)


@pytest.mark.parametrize("go_on", [stop_and_go_on, kill_and_go_on])
def test_a_stopped_training_resumes_to_the_same_adapter(
    tiny_base: Path, tmp_path: Path, uninterrupted_run: Run, go_on: Any
):
    assert same_weights(go_on(kto.train, job(tiny_base, tmp_path, labelled_rows(), save_steps=2)), uninterrupted_run[0])


def test_answers_that_are_all_good_are_refused(tiny_base: Path, tmp_path: Path):
    rows = [single(f"Question {number}?", "Thank you.", True) for number in range(4)]
    with pytest.raises(NotEnoughData, match="all 4 rows that fit are good, and KTO learns from the difference"):
        kto.train(job(tiny_base, tmp_path, rows), silent)


def test_a_row_without_a_label_is_refused_with_its_line(tiny_base: Path, tmp_path: Path):
    rows = [*labelled_rows(2), single("Question?", "Thank you.", "yes")]
    with pytest.raises(BadFile, match=r"\(line 3\): label must be true or false"):
        kto.train(job(tiny_base, tmp_path, rows), silent)


def test_the_first_pass_may_need_no_other_answers(tiny_base: Path, tmp_path: Path):
    tokenizer = AutoTokenizer.from_pretrained(tiny_base)
    start = Start(
        job(tiny_base, tmp_path, labelled_rows(), batch_size=2), silent, tmp_path, None, tokenizer, TokenLimits(9, 9)
    )
    rows = Dataset.from_list([{"prompt_ids": [0], "completion_ids": [i]} for i in range(1, 1201)])
    paired = with_other_answers(
        rows, start, "other_ids", itemgetter("completion_ids"), needs=lambda row: row["completion_ids"] == [1200]
    )
    assert list(paired["other_ids"]) == [[]] * 1198 + [[1200], [1199]]


def test_passes_hold_rows_of_a_kind_in_turns_and_the_rest_comes_last(tiny_base: Path, tmp_path: Path):
    tokenizer = AutoTokenizer.from_pretrained(tiny_base)
    start = Start(
        job(tiny_base, tmp_path, labelled_rows(), batch_size=2), silent, tmp_path, None, tokenizer, TokenLimits(5, 5)
    )
    rows = Dataset.from_list([{"number": number} for number in range(12)])
    ordered = in_passes_of_a_kind(rows, start, lambda row: row["number"] % 4 == 0 or row["number"] > 9)
    assert list(ordered["number"]) == [1, 2, 0, 4, 3, 5, 8, 10, 6, 7, 11, 9]
