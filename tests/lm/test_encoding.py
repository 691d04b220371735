from pathlib import Path

import pytest
from datasets import Dataset
from trl import DPOConfig, DPOTrainer

from rl.base.errors import NotEnoughData, TrainingFailed
from rl.base.manner import Manner
from rl.base.records import silent
from rl.base.template_settings import template_settings
from rl.environments.contract import Action
from rl.lm import encoding
from rl.lm.encoding import answer_text, calls_tools, encode
from rl.lm.lengths import LengthCount, TokenLimits
from rl.lm.loading import load_tokenizer
from rl.lm.reading import manner_of, read_tokenizer
from tests.lm.chat.test_format import CALL, MESSAGES, SEARCH, chat_format
from tests.training.chatting import tokenizer
from tests.training.conftest import message, polite_rows, row

pytestmark = pytest.mark.learn


def test_rows_are_encoded_as_trl_would_but_for_what_stands_behind_the_end_of_a_turn(tiny_base: Path, tmp_path: Path):
    rows = [*polite_rows(3), row("東京 🙂\n\nwhere?", "", "  spaces  ")]
    rows[0]["prompt"].insert(0, message("system", "You are a support agent."))
    tokenizer = load_tokenizer(str(tiny_base))
    arguments = DPOConfig(
        output_dir=str(tmp_path), use_cpu=True, bf16=False, activation_checkpointing=False, report_to=[]
    )
    trainer = DPOTrainer(model=str(tiny_base), args=arguments, train_dataset=Dataset.from_list(rows))
    theirs = trainer.train_dataset.select_columns(["prompt_ids", "chosen_ids", "rejected_ids"]).to_list()
    [new_line] = tokenizer("\n", add_special_tokens=False)["input_ids"]
    for encoded, of_trl in zip(encode(tokenizer, rows, len(rows), silent), theirs, strict=True):
        answers = {name: [*encoded[name], new_line] for name in ("chosen_ids", "rejected_ids")}
        assert {**encoded, **answers} == of_trl


def test_prompts_are_told_what_the_version_is_told_and_rows_stay_as_they_are(tiny_base: Path, tmp_path: Path):
    told = load_tokenizer(str(tiny_base), Manner(instruction="Be brief."))
    asked = row("Where?", "Here.", "There.")
    [encoded] = encode(told, [asked], 1, silent)
    assert told.decode(encoded["prompt_ids"]) == (
        "<|im_start|>user\nWhere?\n\nBe brief.<|im_end|>\n<|im_start|>assistant\n"
    )
    assert asked == row("Where?", "Here.", "There.")
    told.save_pretrained(tmp_path)
    assert manner_of(read_tokenizer(str(tmp_path), TrainingFailed)) == Manner(instruction="Be brief.")
    assert manner_of(load_tokenizer(str(tiny_base))) == Manner()


def test_an_answer_ends_with_the_end_of_its_turn_and_nothing_behind(tiny_base: Path):
    tokenizer = load_tokenizer(str(tiny_base))
    [encoded] = encode(tokenizer, [row("Where?", "Here.", "There.")], 1, silent)
    assert tokenizer.decode(encoded["prompt_ids"]) == "<|im_start|>user\nWhere?<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.decode(encoded["chosen_ids"]) == "Here.<|im_end|>"


def test_a_chat_that_the_template_refuses_is_left_out_with_the_reason(tiny_base: Path):
    tokenizer = load_tokenizer(str(tiny_base))
    tokenizer.chat_template = (
        "{% if messages[0]['role'] != 'user' %}{{ raise_exception('it must begin with a question') }}{% endif %}"
        + tokenizer.chat_template
    )
    good, bad = row("Where?", "Here.", "There."), row("Where?", "Here.", "There.")
    bad["prompt"].insert(0, message("assistant", "Good morning!"))
    lengths = LengthCount()
    encoded = [lengths.fit(ids, 100) for ids in encode(tokenizer, [good, bad, good], 3, silent)]
    assert [ids is None for ids in encoded] == [False, True, False]
    logged: list[str] = []
    lengths.check(TokenLimits(100, 100), lambda event, values: logged.append(values["text"]))
    [reason] = logged
    assert reason.startswith(
        "1 of 3 rows are left out: the model's chat template refuses a prompt: it must begin with a"
    )
    alone = LengthCount()
    assert [alone.fit(ids, 100) for ids in encode(tokenizer, [bad], 1, silent)] == [None]
    with pytest.raises(NotEnoughData, match="it must begin with a question"):
        alone.check(TokenLimits(100, 100), silent)


def test_after_a_template_that_writes_no_answers_come_its_words_and_the_end_of_the_text(tiny_base: Path):
    tokenizer = load_tokenizer(str(tiny_base))
    tokenizer.chat_template = "{% for message in messages if message.role == 'user' %}{{ message.content }}{% endfor %}"
    [encoded] = encode(tokenizer, [row("Where?", "Here.", "There.")], 1, silent)
    assert tokenizer.decode(encoded["prompt_ids"]) == "Where?"
    assert tokenizer.decode(encoded["chosen_ids"]) == "Here.<|im_end|>"


def test_progress_is_reported_between_batches(tiny_base: Path):
    steps = []
    rows = polite_rows(300)
    list(encode(load_tokenizer(str(tiny_base)), rows, 300, lambda event, values: steps.append((event, values["step"]))))
    assert steps == [("step", 256), ("step", 300)]


def test_long_rows_are_tokenised_in_smaller_batches(tiny_base: Path, monkeypatch):
    monkeypatch.setattr(encoding, "_BATCH_CHARACTERS", 1000)
    steps = []
    rows = [*polite_rows(3), row("long " * 100, "a", "b"), *polite_rows(2)]
    list(encode(load_tokenizer(str(tiny_base)), rows, 6, lambda event, values: steps.append(values["step"])))
    assert steps == [4, 6]


@pytest.mark.parametrize("name", ["qwen2_5", "llama3_1", "mistral_v3", "phi3"])
def test_an_answer_after_a_prompt_with_tools_shows_what_it_calls(name: str):
    model = tokenizer(name)
    ids = chat_format(name).turn_ids(Action("", (CALL,)))
    assert CALL.name in answer_text(model, {"prompt": MESSAGES, "tools": [SEARCH]}, ids)
    assert calls_tools(model, {"prompt": MESSAGES, "tools": [SEARCH]}, ids)
    assert chat_format(name).action(ids, [SEARCH]).calls == (CALL,)
    words = chat_format(name).turn_ids(Action("It is warm."))
    assert answer_text(model, {"prompt": MESSAGES, "tools": [SEARCH]}, words) == "It is warm."
    assert answer_text(model, {"prompt": MESSAGES}, words).strip() == "It is warm."
    assert not calls_tools(model, {"prompt": MESSAGES, "tools": [SEARCH]}, words)


CALL_OF_A_RUN = {
    "id": "call00001",
    "type": "function",
    "function": {"name": "search", "arguments": {"query": "weather"}},
}


def run_row(words: str = "") -> dict:
    """A row with tools, whose answer calls one, gets its result and answers."""
    answer = [
        {"role": "assistant", "content": words, "tool_calls": [CALL_OF_A_RUN]},
        {"role": "tool", "tool_call_id": "call00001", "name": "search", "content": "22 degrees"},
        {"role": "assistant", "content": "It is warm."},
    ]
    return {"prompt": [message("user", "Is it warm?")], "tools": [SEARCH], "completion": answer}


@pytest.mark.parametrize("name", ["deepseekv3", "diffusion_gemma", "lfm2_v2", "muse_glimmer"])
def test_calls_are_written_as_the_template_writes_them_also_where_nobody_reads_them_back(name: str):
    model = tokenizer(name)
    [encoded] = encode(model, [run_row()], 1, silent, ("completion",))
    offered = model.decode(encoded["prompt_ids"])
    rendered = [*run_row()["prompt"]]
    served = model.apply_chat_template(
        rendered, tools=[SEARCH], add_generation_prompt=True, tokenize=False, **template_settings(False)
    )
    assert offered == served
    learned = [number for number in encoded["completion_ids"] if number >= 0]
    assert "weather" in model.decode(learned)
    assert "22 degrees" not in model.decode(learned)
    assert "It is warm." in model.decode(learned)
    call = [
        number for number in encoded["completion_ids"][: encoded["completion_ids"].index(learned[-1])] if number >= 0
    ]
    assert calls_tools(model, run_row(), call)
    assert not calls_tools(model, run_row(), model("It is warm.", add_special_tokens=False)["input_ids"])


@pytest.mark.parametrize(("name", "drops"), [("llama3_1", True), ("qwen2_5", False)])
def test_words_beside_a_call_that_the_template_drops_are_counted(name: str, drops: bool):
    lengths = LengthCount()
    for ids in encode(tokenizer(name), [run_row("Let me look."), run_row()], 2, silent, ("completion",)):
        lengths.fit(ids, 10_000)
    logged: list[str] = []
    lengths.check(TokenLimits(10_000, 10_000), lambda event, values: logged.append(values["text"]))
    assert logged == (["1 of 2 rows lose words beside tool calls: the template drops them"] if drops else [])
