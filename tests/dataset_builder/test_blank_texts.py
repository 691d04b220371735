"""Whatever was stored: nothing blank is a prompt, and nothing blank is what is to be answered."""

from collections.abc import Iterator
from typing import Any

import pytest

from rl.base.messages import asks_nothing
from rl.collect.feedback import write
from rl.dataset_builder import DataOptions, freeze
from rl.dataset_builder.exporting import FORMATS
from rl.dataset_builder.read.replays import accepted_answers
from rl.models import Agent
from tests.dataset_builder.exporting.exports import exported
from tests.dataset_builder.ratings import read_jsonl

pytestmark = pytest.mark.django_db
ONE = DataOptions(min_samples=1, val_split=0)
BLANK = ("", " \n\t", "\u00a0\u3000")
METHODS = ("dpo", "mpo", "sft", "kto", "grpo", "reward", "reward_model", "prompts")


@pytest.fixture
def talked(agent: Agent) -> Agent:
    """Of each prompt an answer that is liked, one that is not, a blank one that is liked most; four of the prompts ask
    nothing."""
    asked = [[{"role": "user", "content": text}] for text in (*BLANK, "Is it?", "Was it?")]
    told = {"role": "system", "content": "Be brief."}
    for prompt in (*asked, [told, {"role": "user", "content": " "}]):
        answers = {text: agent.traces.create(response=text, prompt=prompt) for text in ("Yes.", "No.", *BLANK)}
        for text, trace in answers.items():
            write.rate(trace, rater="user:alice", scale="thumb", value=text != "No.", source="test")
            type(trace).objects.filter(pk=trace.pk).update(reward=0.2 if text == "No." else 0.9, reward_pending=False)
        for text in BLANK:
            write.compare(answers[text], answers["No."], rater="user:bob", choice="left", source="test")
    return agent


def texts(row: dict[str, Any]) -> Iterator[str]:
    """All that a row teaches to say."""
    answers = [row.get("chosen"), row.get("completion"), *(row.get("completions") or ()), row.get("messages")]
    for answer in filter(None, answers):
        yield answer[-1]["content"]


@pytest.mark.parametrize("method", METHODS)
def test_no_row_of_any_method_has_a_blank_prompt_or_teaches_to_say_nothing(talked, data_dir, method):
    frozen = freeze(talked, ONE, method=method)
    rows = read_jsonl(frozen.directory / "train.jsonl")
    assert {row["prompt"][-1]["content"] for row in rows} == {"Is it?", "Was it?"}
    assert all(text.strip() for row in rows for text in texts(row))
    assert frozen.stats["skipped"]["prompt without words"] >= 4


@pytest.mark.parametrize("name", sorted(set(FORMATS) - {"decision", "toolbox_kto"}))
def test_no_exported_row_does(talked, tmp_path, name):
    for row in exported(talked, name, tmp_path):
        turns = row.get("messages") or row.get("conversations") or row["prompt"]
        questions = [
            turn.get("content", turn.get("value")) for turn in turns if turn.get("role", turn.get("from")) != "system"
        ]
        assert questions[0] in ("Is it?", "Was it?")
        assert all(text.strip() for text in texts(row))


def test_no_task_is_made_of_a_blank_prompt(talked):
    assert sorted(map(len, accepted_answers(talked).values())) == [1, 1]


@pytest.mark.parametrize(
    ("prompt", "blank"),
    [
        ([], True),
        ([{"role": "system", "content": "Speak."}], False),
        ([{"role": "system", "content": " "}], True),
        ([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": ""}], False),
        ([{"role": "user", "content": "Hi"}, {"role": "tool", "content": ""}], False),
        ([{"role": "user", "content": "Hi"}, {"role": "user", "content": "\n"}], True),
    ],
)
def test_a_prompt_is_blank_where_its_last_question_is(prompt, blank):
    assert asks_nothing(prompt) == blank
