"""Thoughts on or off: what is trained, kept, measured and exported goes by one setting."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rl.base.manner import Manner
from rl.base.records import silent
from rl.base.template_settings import SWITCH
from rl.config.training_job import LEARNED_ROWS
from rl.evaluation.torch.answering import answer_versions
from rl.evaluation.torch.scoring import encoded_pairs, score_versions
from rl.export.hf.loading import load_tokenizer as load_exported
from rl.lm.chat.template import ChatTemplate
from rl.lm.encoding import encode
from rl.lm.lengths import LengthCount, TokenLimits
from rl.lm.loading import load_tokenizer
from rl.runs.preview import show, with_answers
from rl.training import dpo
from tests.lm.test_encoding import run_row
from tests.training.chatting import tokenizer
from tests.training.conftest import job, message, polite_rows, row

pytestmark = pytest.mark.learn
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.reasoning_content %}<think>\n"
    "{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"
    "{% endif %}"
)


@pytest.fixture
def base(tiny_base: Path, tmp_path: Path) -> Path:
    """A model whose template has a switch."""
    folder = shutil.copytree(tiny_base, tmp_path / "base")
    model = load_tokenizer(str(folder))
    model.chat_template = TEMPLATE
    model.save_pretrained(folder)
    return folder


def thinking_rows() -> list[dict[str, Any]]:
    rows = polite_rows()
    for one in rows:
        one["chosen"][-1]["reasoning_content"] = "Be kind."
    return rows


def answer_of(base: Path, folder: Path, thinks: bool) -> tuple[str, str, Path]:
    """The first prompt and the chosen answer to it as a training learned them, and the weights."""
    todo = job(base, folder, thinking_rows(), max_steps=1, thinks=thinks)
    weights = dpo.train(todo, silent).weights_dir
    [shown, *_] = json.loads((todo.output_dir / LEARNED_ROWS).read_text())["rows"]
    return shown["prompt"], "".join(text for text, _ in shown["answers"][0]["pieces"]), weights


def test_rows_that_are_shown_before_a_run_are_those_that_it_will_learn(base: Path):
    [row] = [with_answers("mpo", one) for one in thinking_rows()[:1]]
    for thinks in (True, False):
        [shown], _ = show(base, [row], None, Manner(thinks))
        assert shown["prompt"].endswith("assistant\n" if thinks else "<think>\n\n</think>\n\n")
        assert ("Be kind." in "".join(text for text, _ in shown["answers"][0]["pieces"])) == thinks


def test_a_training_learns_thoughts_where_the_agent_thinks_and_its_files_say_so(base: Path, tmp_path: Path):
    prompt, answer, weights = answer_of(base, tmp_path / "on", thinks=True)
    assert prompt.endswith("<|im_start|>assistant\n")
    assert answer.startswith("<think>\nBe kind.\n</think>\n\n")
    assert ChatTemplate(load_exported(str(base), weights)).thinks
    prompt, answer, weights = answer_of(base, tmp_path / "off", thinks=False)
    assert prompt.endswith("<think>\n\n</think>\n\n")
    assert "Be kind." not in answer
    assert json.loads((weights / "tokenizer_config.json").read_text())[SWITCH] is False
    assert not ChatTemplate(load_exported(str(base), weights)).thinks


def test_a_folder_that_was_trained_with_thoughts_is_loaded_as_is_asked(base: Path, tmp_path: Path):
    load_tokenizer(str(base), Manner(True)).save_pretrained(base)
    assert not ChatTemplate(load_tokenizer(str(base))).thinks


@pytest.mark.parametrize("thinks", [False, True])
def test_versions_are_measured_with_the_prompts_that_they_are_served(base: Path, thinks: bool):
    rows = [{**one, "prompt_key": str(number)} for number, one in enumerate(thinking_rows()[:3])]
    options = {"max_length": 200, "report": silent, "manner": Manner(thinks)}
    opened = load_tokenizer(str(base))(_end(thinks), add_special_tokens=False)["input_ids"]
    for both in encoded_pairs(str(base), rows, **options):
        assert both is not None
        assert [prompt[-len(opened) :] for prompt, _ in both] == [opened, opened]
    seen: list[str] = []

    def look(name: str, model: Any, *loaded: Any) -> None:
        seen.append(ChatTemplate(model).render(rows[0]["prompt"], opening=True))

    score_versions(str(base), {"base": None}, rows, also=look, **options)
    answer_versions(str(base), {"base": None}, rows, max_new_tokens=2, also=look, **options)
    assert [text.endswith(_end(thinks)) for text in seen] == [True, True]


def _end(thinks: bool) -> str:
    return "<|im_start|>assistant\n" + ("" if thinks else "<think>\n\n</think>\n\n")


def test_rows_that_lose_their_thoughts_are_counted(tiny_base: Path):
    model, lengths = load_tokenizer(str(tiny_base), Manner(True)), LengthCount()
    silent_row = row("Where?", "Here.", "There.")
    for ids in encode(model, [*thinking_rows()[:2], silent_row], 3, silent):
        lengths.fit(ids, 200)
    logged: list[str] = []
    lengths.check(TokenLimits(200, 200), lambda event, values: logged.append(values["text"]))
    assert logged == ["2 of 3 rows lose their thoughts: the template writes none"]


@pytest.mark.parametrize(
    ("name", "before", "behind"),
    [
        ("qwen3", "<think>\n", "\n</think>\n\n"),
        ("qwen3_6", "", "\n</think>\n\n"),
        ("nemotron_3_nano", "", "\n</think>\n"),
        ("deepseekv3", "", "\n</think>\n\n"),
    ],
)
def test_the_turns_of_a_run_are_learned_with_what_was_thought_before_them(name: str, before: str, behind: str):
    one = run_row()
    calling, _, answer = one["completion"]
    calling["reasoning_content"], answer["reasoning_content"] = "I must look.\n", "\nWarm is above 20."
    model = tokenizer(name)
    said = {}
    for thinks in (False, True):
        model.init_kwargs[SWITCH] = thinks
        [encoded] = encode(_fresh(model), [one], 1, silent, ("completion",))
        said[thinks] = model.decode([number for number in encoded["completion_ids"] if number >= 0])
    model.init_kwargs.pop(SWITCH)
    assert said[True].startswith(f"{before}I must look.{behind[:9]}")
    assert f"Warm is above 20.{behind}It is warm." in said[True]
    assert (said[True].count("must look"), said[True].count("above 20")) == (1, 1)
    assert "look" not in said[False]
    assert "above" not in said[False]


def _fresh(model: Any) -> Any:
    """Nothing is known of it from before."""
    from copy import copy

    return copy(model)


def test_what_somebody_asked_is_not_changed_by_thoughts(base: Path):
    model = load_tokenizer(str(base), Manner(True))
    chat = [message("user", "Where?"), {**message("assistant", "Here."), "reasoning_content": "Near."}]
    [encoded] = encode(model, [{"prompt": [*chat, message("user", "Really?")]}], 1, silent, ())
    assert "Really?" in model.decode(encoded["prompt_ids"])
