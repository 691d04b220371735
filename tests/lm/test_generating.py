import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from rl.base.errors import UsageError
from rl.lm import generating, loading
from rl.lm.generating import DrawingProcessor, draw, keep_likely, likeliest
from tests.training.agents import task

pytestmark = pytest.mark.learn


MOST = 12


@pytest.fixture(scope="module")
def answering(answering_base: Path) -> tuple[Any, Any]:
    """Model and tokenizer."""
    return loading.load_base(str(answering_base), "fp32").eval(), loading.load_tokenizer(str(answering_base))


def prompt_ids(tokenizer: Any, number: int, words: int = 1) -> list[int]:
    prompt = task(number, words)["prompt"]
    ids: list[int] = tokenizer.apply_chat_template(prompt, add_generation_prompt=True)["input_ids"]
    return ids


def step_by_step(model: Any, prompt: list[int], end: int) -> list[int]:
    answer: list[int] = []
    with torch.no_grad():
        while len(answer) < MOST and end not in answer:
            answer.append(int(model(torch.tensor([prompt + answer])).logits[0, -1].argmax()))
    return answer


def test_it_says_the_likeliest_token_of_each_step_up_to_the_end(answering: tuple[Any, Any]):
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
    model, tokenizer = answering
    [answers] = likeliest(model, tokenizer, [prompt_ids(tokenizer, 3)], 2)
    assert len(answers) == 2
    assert tokenizer.eos_token_id not in answers


def test_whatever_ends_an_answer_in_the_models_own_settings_ends_it(answering: tuple[Any, Any]):
    model, tokenizer = answering
    [whole] = likeliest(model, tokenizer, [prompt_ids(tokenizer, 3)], MOST)
    ends = model.generation_config.eos_token_id
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, whole[1]]
    try:
        assert likeliest(model, tokenizer, [prompt_ids(tokenizer, 3)], MOST) == [whole[:2]]
    finally:
        model.generation_config.eos_token_id = ends


SETTINGS = [(1.0, 1.0, 0), (0.7, 1.0, 0), (1.0, 1.0, 50), (1.0, 0.95, 0), (1.3, 0.9, 50), (0.5, 0.3, 5), (1.0, 0.01, 0)]
SCORES = torch.randn(4, 3000, generator=torch.Generator().manual_seed(0)) * torch.tensor([[0.1], [1.0], [3.0], [9.0]])


def warped(scores: Tensor, temperature: float, top_p: float, top_k: int) -> Tensor:
    warpers = LogitsProcessorList([TemperatureLogitsWarper(temperature)])
    if top_k:
        warpers.append(TopKLogitsWarper(top_k))
    if top_p < 1:
        warpers.append(TopPLogitsWarper(top_p))
    theirs: Tensor = warpers(torch.zeros(len(scores), 1, dtype=torch.long), scores)
    return theirs


@pytest.mark.parametrize(("temperature", "top_p", "top_k"), SETTINGS)
def test_scores_are_cut_as_by_transformers(temperature: float, top_p: float, top_k: int):
    values, words = keep_likely(SCORES / temperature, top_p, top_k)
    ours = values
    if words is not None:
        ours = torch.full_like(SCORES, float("-inf")).scatter_(1, words, values)
    assert torch.equal(ours, warped(SCORES, temperature, top_p, top_k))


def test_equal_scores_at_the_cut_all_stay():
    scores = torch.tensor([[3.0, 1.0, 2.0, 2.0, 2.0, 0.0], [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]])
    values, words = keep_likely(scores, 1.0, 2)
    assert words is not None
    ours = torch.full_like(scores, float("-inf")).scatter_(1, words, values)
    assert torch.equal(ours, warped(scores, 1.0, 1.0, 2))


def test_a_number_between_two_sums_draws_the_token_between_them(monkeypatch: pytest.MonkeyPatch):
    shares = torch.tensor([[0.25, 0.5, 0.25]])
    for number, token in [(0.0, 0), (0.24, 0), (0.26, 1), (0.74, 1), (0.76, 2), (0.9999999, 2)]:
        monkeypatch.setattr(torch, "rand_like", lambda like, number=number: torch.full_like(like, number))
        assert draw(shares.log()).tolist() == [[token]]


@pytest.mark.parametrize("number", [0.0, 1 - 2**-53])
def test_what_is_cut_off_is_never_drawn(number: float, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch, "rand_like", lambda like: torch.full_like(like, number))
    assert draw(torch.tensor([[float("-inf"), 1.0, float("-inf")]] * 2)).tolist() == [[1], [1]]


def test_the_same_seed_draws_the_same():
    ids = torch.zeros(4, 1, dtype=torch.long)

    def drawn() -> list[int]:
        torch.manual_seed(3)
        tokens: list[int] = DrawingProcessor(0.9, 0.95, 0)(ids, SCORES).argmax(dim=-1).tolist()
        return tokens

    assert drawn() == drawn()


def test_scores_that_are_not_numbers_raise():
    with pytest.raises(RuntimeError, match="not numbers"):
        draw(torch.tensor([[1.0, float("nan")]]))


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "urgent": {"type": "boolean"},
        "team": {"enum": ["cards", "cash"]},
        "about": {"anyOf": [{"type": "null"}, {"type": "string", "maxLength": 12}]},
        "flags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
    },
    "required": ["urgent", "team", "about"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def loaded(tiny_base: Path) -> Any:
    return loading.load_base(str(tiny_base), "fp32").eval(), loading.load_tokenizer(str(tiny_base))


def answers(loaded: Any, questions: list[str], schema: Any, most: int = 400) -> list[list[int]]:
    model, tokenizer = loaded
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, return_dict=False
        )
        for question in questions
    ]
    return likeliest(model, tokenizer, prompts, most, schema)


def test_answers_of_a_batch_keep_to_the_schema_each_at_its_own_pace(loaded: Any):
    jsonschema = pytest.importorskip("jsonschema")
    questions = [
        "Where is my card?",
        "Who am I?",
        "Is this a question that is longer than the others are, or is it not?",
    ]
    texts = [loaded[1].decode(ids, skip_special_tokens=True) for ids in answers(loaded, questions, SCHEMA)]
    for text in texts:
        jsonschema.validate(json.loads(text), SCHEMA)
    assert texts == [
        loaded[1].decode(answers(loaded, [question], SCHEMA)[0], skip_special_tokens=True) for question in questions
    ]


def test_without_a_schema_nothing_is_kept_back(loaded: Any):
    (ids,) = answers(loaded, ["Where is my card?"], None, most=5)
    assert not loaded[1].decode(ids).startswith("{")


def test_a_schema_that_nothing_keeps_to_is_told_of(loaded: Any):
    impossible = {"type": "object", "properties": {"a": False}, "required": ["a"]}
    with pytest.raises(UsageError, match="no answer can be made"):
        answers(loaded, ["Where?"], impossible)
