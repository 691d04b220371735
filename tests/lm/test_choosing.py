"""Chooses among answers with the tiny model."""

from pathlib import Path
from typing import Any

import pytest
import torch

from rl.lm import choosing, loading
from rl.lm.choosing import answer_tree

pytestmark = pytest.mark.learn
VALUES = ("cards", "cash", "cash back", "identity")


@pytest.fixture(scope="module")
def model(tiny_base: Path) -> Any:
    return loading.load_base(str(tiny_base), "fp32").eval()


@pytest.fixture(scope="module")
def tokenizer(tiny_base: Path) -> Any:
    return loading.load_tokenizer(str(tiny_base))


def tree_of(tokenizer: Any, values: tuple[str, ...]) -> Any:
    return answer_tree(tokenizer, row("x"), values)


def choose(*arguments: Any, **options: Any) -> list[str]:
    return choosing.choose(*arguments, **options)


def row(text: str) -> dict[str, object]:
    return {"prompt": [{"role": "user", "content": text}]}


def read(tokenizer, texts):
    return [
        tokenizer.apply_chat_template(row(text)["prompt"], add_generation_prompt=True, return_dict=False)
        for text in texts
    ]


def test_the_answer_is_the_likeliest_of_the_set_as_whole_sequences_tell(model, tokenizer):
    tree = tree_of(tokenizer, ("cards", "identity"))
    prompts = read(tokenizer, ["Where is my card?", "Who am I, and how long is this question, which is longer?"])
    chosen = choose(model, tokenizer, prompts, tree, [{}, {}])
    for prompt, answer in zip(prompts, chosen, strict=True):
        parting = tree.parting(tuple(tree.tokens))
        with torch.no_grad():
            scores = model(torch.tensor([[*prompt, *parting.prefix]])).logits[0, -1]
        assert parting.options[max(parting.options, key=lambda option: scores[option])] == (answer,)


def test_support_decides_among_answers_that_begin_alike(model, tokenizer):
    tree = tree_of(tokenizer, VALUES)
    prompts = read(tokenizer, ["a"] * len(VALUES))
    supports = [{value: 60.0} for value in VALUES]
    assert choose(model, tokenizer, prompts, tree, supports) == list(VALUES)


def test_what_answers_have_anyhow_is_taken_off(model, tokenizer):
    tree = tree_of(tokenizer, VALUES)
    prompts = read(tokenizer, ["the same question"] * 3)
    nudge = [{}, {"identity": 0.01}, {"cards": 0.01}]
    chosen = choose(model, tokenizer, prompts, tree, nudge, ["", "", ""])
    assert chosen[1:] == ["identity", "cards"]  # all are alike but for the support
