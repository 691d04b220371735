from __future__ import annotations

from pathlib import Path

import pytest
from datasets import Dataset
from trl import DPOConfig, DPOTrainer

from rl.errors import TrainingFailed
from rl.records import silent
from rl.training.encoding import EncodedRow, LengthCount, encode
from rl.training.loading import load_tokenizer
from tests.training.conftest import message, polite_rows, row


def test_rows_are_encoded_as_trl_would(tiny_base: Path, tmp_path: Path) -> None:
    rows = [*polite_rows(3), row("東京 🙂\n\nwhere?", "", "  spaces  ")]
    rows[0]["prompt"].insert(0, message("system", "You are a support agent."))
    tokenizer = load_tokenizer(str(tiny_base))
    arguments = DPOConfig(
        output_dir=str(tmp_path), use_cpu=True, bf16=False, activation_checkpointing=False, report_to=[]
    )
    trainer = DPOTrainer(model=str(tiny_base), args=arguments, train_dataset=Dataset.from_list(rows))
    theirs = trainer.train_dataset.select_columns(["prompt_ids", "chosen_ids", "rejected_ids"]).to_list()
    assert list(encode(tokenizer, rows, len(rows), silent)) == theirs


def test_an_answer_ends_with_the_end_of_its_turn(tiny_base: Path) -> None:
    tokenizer = load_tokenizer(str(tiny_base))
    [encoded] = encode(tokenizer, [row("Where?", "Here.", "There.")], 1, silent)
    assert tokenizer.decode(encoded["prompt_ids"]) == "<|im_start|>user\nWhere?<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.decode(encoded["chosen_ids"]) == "Here.<|im_end|>\n"


def test_a_template_that_renders_an_answered_prompt_differently_starts_the_answer_where_they_part(
    tiny_base: Path,
) -> None:
    tokenizer = load_tokenizer(str(tiny_base))
    tokenizer.chat_template = "{{ messages[0]['content'] }}" + (
        "{% if add_generation_prompt %} think{% else %} {{ messages[1]['content'] }}{% endif %}"
    )
    [encoded] = encode(tokenizer, [row("Where", "Here", "There")], 1, silent)
    assert tokenizer.decode(encoded["prompt_ids"]) == "Where"
    assert tokenizer.decode(encoded["chosen_ids"]) == " Here"


def test_a_template_that_refuses_a_conversation_says_why(tiny_base: Path) -> None:
    tokenizer = load_tokenizer(str(tiny_base))
    tokenizer.chat_template = "{{ raise_exception('System role not supported') }}"
    with pytest.raises(TrainingFailed, match="System role not supported"):
        list(encode(tokenizer, polite_rows(1), 1, silent))


def test_progress_is_reported_between_batches(tiny_base: Path) -> None:
    steps = []
    rows = polite_rows(300)
    list(encode(load_tokenizer(str(tiny_base)), rows, 300, lambda event, values: steps.append((event, values["step"]))))
    assert steps == [("step", 256), ("step", 300)]


def encoded(prompt: int, chosen: int, rejected: int) -> EncodedRow:
    return {"prompt_ids": [1] * prompt, "chosen_ids": [2] * chosen, "rejected_ids": [3] * rejected}


def test_long_answers_are_cut_and_long_prompts_left_out() -> None:
    lengths = LengthCount()
    assert lengths.fit(encoded(4, 3, 6), 10) == encoded(4, 3, 6)
    assert lengths.fit(encoded(4, 3, 7), 10) == encoded(4, 3, 6)
    assert lengths.fit(encoded(9, 5, 5), 10) == encoded(9, 1, 1)
    assert lengths.fit(encoded(10, 1, 1), 10) is None
    assert lengths == LengthCount(rows=4, dropped=1, cut=2, longest_prompt=10, longest_row=14)
