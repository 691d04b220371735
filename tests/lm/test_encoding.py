from __future__ import annotations

from pathlib import Path

import pytest
from datasets import Dataset
from trl import DPOConfig, DPOTrainer

from rl.base.errors import TrainingFailed
from rl.base.records import silent
from rl.environments.contract import Action
from rl.lm import encoding
from rl.lm.encoding import answer_text, calls_tools, encode
from rl.lm.loading import load_tokenizer
from tests.lm.chat.test_format import CALL, MESSAGES, SEARCH, chat_format
from tests.training.chatting import tokenizer
from tests.training.conftest import message, polite_rows, row

pytestmark = pytest.mark.learn


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


def test_a_prompt_that_is_far_too_long_is_read_once_and_its_answers_without_it(tiny_base: Path, monkeypatch) -> None:
    tokenizer = load_tokenizer(str(tiny_base))
    rows = [row("parcel " * 500, "Here.", "There, at last."), row("Where?", "Here.", "There.")]
    whole = list(encode(tokenizer, rows, 2, silent))
    seen: list[int] = []
    render = encoding._render

    def render_and_count(tokenizer, chats, **options):
        seen.extend(len(chat) for chat in chats)
        return render(tokenizer, chats, **options)

    monkeypatch.setattr(encoding, "_render", render_and_count)
    first, second = encode(tokenizer, rows, 2, silent, most_tokens=100)
    assert sorted(seen) == [1, 1, 2, 2]
    assert second == whole[1]
    assert first["prompt_ids"] == whole[0]["prompt_ids"]
    assert tokenizer.decode(first["rejected_ids"]) == "There, at last."


def test_long_rows_are_tokenised_in_smaller_batches(tiny_base: Path, monkeypatch) -> None:
    monkeypatch.setattr(encoding, "_BATCH_CHARACTERS", 1000)
    steps = []
    rows = [*polite_rows(3), row("long " * 100, "a", "b"), *polite_rows(2)]
    list(encode(load_tokenizer(str(tiny_base)), rows, 6, lambda event, values: steps.append(values["step"])))
    assert steps == [4, 6]


@pytest.mark.parametrize("name", ["qwen2_5", "llama3_1", "mistral_v3", "phi3"])
def test_an_answer_after_a_prompt_with_tools_shows_what_it_calls(name: str) -> None:
    model = tokenizer(name)
    ids = chat_format(name).turn_ids(Action("", (CALL,)))
    assert CALL.name in answer_text(model, {"prompt": MESSAGES, "tools": [SEARCH]}, ids)
    assert calls_tools(model, {"prompt": MESSAGES, "tools": [SEARCH]}, ids)
    assert chat_format(name).action(ids, [SEARCH]).calls == (CALL,)
    words = chat_format(name).turn_ids(Action("It is warm."))
    assert answer_text(model, {"prompt": MESSAGES, "tools": [SEARCH]}, words) == "It is warm."
    assert answer_text(model, {"prompt": MESSAGES}, words).strip() == "It is warm."
    assert not calls_tools(model, {"prompt": MESSAGES, "tools": [SEARCH]}, words)
