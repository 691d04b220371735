"""Keeps what the tiny model says to a schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import UsageError

pytestmark = pytest.mark.learn
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
    from rl.lm import loading

    return loading.load_base(str(tiny_base), "fp32").eval(), loading.load_tokenizer(str(tiny_base))


def answers(loaded: Any, questions: list[str], schema: Any, most: int = 400) -> list[list[int]]:
    from rl.lm.generating import likeliest

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
