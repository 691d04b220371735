from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.training.agents import task

pytestmark = pytest.mark.learn


MOST = 12


@pytest.fixture(scope="module")
def answering(answering_base: Path) -> tuple[Any, Any]:
    """Model and tokenizer."""
    from rl.lm import loading

    return loading.load_base(str(answering_base), "fp32").eval(), loading.load_tokenizer(str(answering_base))


def prompt_ids(tokenizer: Any, number: int, words: int = 1) -> list[int]:
    prompt = task(number, words)["prompt"]
    ids: list[int] = tokenizer.apply_chat_template(prompt, add_generation_prompt=True)["input_ids"]
    return ids


def step_by_step(model: Any, prompt: list[int], end: int) -> list[int]:
    import torch

    answer: list[int] = []
    with torch.no_grad():
        while len(answer) < MOST and end not in answer:
            answer.append(int(model(torch.tensor([prompt + answer])).logits[0, -1].argmax()))
    return answer


def test_it_says_the_likeliest_token_of_each_step_up_to_the_end(answering: tuple[Any, Any]):
    from rl.lm.generating import likeliest

    model, tokenizer = answering
    prompts = [prompt_ids(tokenizer, 3), prompt_ids(tokenizer, 4, words=5), tokenizer("Question")["input_ids"]]
    answers = likeliest(model, tokenizer, prompts, MOST)
    assert answers == [step_by_step(model, prompt, tokenizer.eos_token_id) for prompt in prompts]
    assert answers[0][-1] == tokenizer.eos_token_id
    assert tokenizer.eos_token_id not in answers[0][:-1]


@pytest.mark.parametrize("can_drop", [True, False])
def test_answers_that_have_ended_leave_the_pass(
    answering: tuple[Any, Any], can_drop: bool, monkeypatch: pytest.MonkeyPatch
):
    from rl.lm import generating

    model, tokenizer = answering
    monkeypatch.setattr(generating, "_STRETCH", 3)
    if not can_drop:
        monkeypatch.setattr(generating, "_BY_ROWS", ())
    prompts = [prompt_ids(tokenizer, 3), prompt_ids(tokenizer, 4, words=5), tokenizer("Question")["input_ids"]]
    rows: list[int] = []
    hook = model.base_model.register_forward_pre_hook(
        lambda module, arguments, named: rows.append(len(named["input_ids"])), with_kwargs=True
    )
    answers = generating.likeliest(model, tokenizer, prompts, MOST)
    hook.remove()
    assert answers == [step_by_step(model, prompt, tokenizer.eos_token_id) for prompt in prompts]
    assert len(set(map(len, answers))) > 1
    assert sum(rows) >= sum(map(len, answers))
    assert (rows[-1] < 3) == can_drop


def test_it_stops_at_the_most_tokens(answering: tuple[Any, Any]):
    from rl.lm.generating import likeliest

    model, tokenizer = answering
    [answers] = likeliest(model, tokenizer, [prompt_ids(tokenizer, 3)], 2)
    assert len(answers) == 2
    assert tokenizer.eos_token_id not in answers


def test_whatever_ends_an_answer_in_the_models_own_settings_ends_it(answering: tuple[Any, Any]):
    from rl.lm.generating import likeliest

    model, tokenizer = answering
    [whole] = likeliest(model, tokenizer, [prompt_ids(tokenizer, 3)], MOST)
    ends = model.generation_config.eos_token_id
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, whole[1]]
    try:
        assert likeliest(model, tokenizer, [prompt_ids(tokenizer, 3)], MOST) == [whole[:2]]
    finally:
        model.generation_config.eos_token_id = ends
