"""Answers that say of themselves where they may be used."""

from collections.abc import Iterator
from typing import Any

import pytest

from rl import dataset_builder
from rl.auto_labels.learning import read_opinions
from rl.collect.feedback import write
from rl.config import METHODS
from rl.data_formatter import read_training_rows
from rl.dataset_builder import DataOptions, Split
from rl.judge.labels import Answers
from rl.models import Agent, Trace, prompt_key
from rl.models.traces import HELD_OUT, NEVER
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate

pytestmark = pytest.mark.django_db
KINDS = ["dpo", "mpo", "sft", "kto", "grpo", "reward_model", "prompts"]


def answers(agent: Agent, question: str, split: str = "") -> list[Trace]:
    """A good and a bad one, rated and rewarded."""
    details = {"split": split} if split else {}
    traces = [make_trace(agent, question, f"{question} {word}", details=details) for word in ("good", "bad")]
    for trace, value in zip(traces, (1, 0), strict=True):
        rate(trace, value)
        Trace.objects.filter(pk=trace.pk).update(reward=float(value))
    write.correct(traces[1], rater="alice", text=f"{question} better", source="test")
    return traces


def texts(agent: Agent, kind: str, data_dir: Any) -> dict[str, str]:
    """All that is in the rows to train on, and all that is in those held out."""
    frozen = dataset_builder.freeze(agent, DataOptions(min_samples=1, val_split=0.0), method=kind)
    return {side: str(list(rows(frozen, side, kind))) for side in ("train", "heldout")}


def rows(frozen: Any, side: str, kind: str) -> Iterator[Any]:
    yield from read_training_rows(frozen.directory / f"{side}.jsonl", kind)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_never_to_be_used_is_in_no_row_and_what_is_for_testing_is_held_out(agent, data_dir, kind: str):
    for question, split in (("usual", ""), ("secret", NEVER), ("test", HELD_OUT), ("other", "whatever")):
        answers(agent, question, split)
    found = texts(agent, kind, data_dir)
    assert "usual" in found["train"]
    assert "other" in found["train"]
    assert "test" in found["heldout"]
    assert "test" not in found["train"]
    assert "secret" not in found["train"] + found["heldout"]


def test_one_answer_for_testing_holds_out_its_prompt(agent):
    make_trace(agent, "Where?", "Here.")
    make_trace(agent, "Where?", "There.", details={"split": HELD_OUT})
    split = Split(agent, 0.0)
    assert split.is_held_out(prompt_key([{"role": "user", "content": "Where?"}]))
    assert not split.is_held_out(prompt_key([{"role": "user", "content": "Who?"}]))
    assert not Split(Agent.objects.create(name="another"), 0.0).is_held_out(
        prompt_key([{"role": "user", "content": "Where?"}])
    )


def test_a_pick_between_an_answer_and_one_never_to_be_used_is_in_no_pair(agent, data_dir):
    answers(agent, "usual")
    left, right = (
        make_trace(agent, "Q?", text, details=details) for text, details in (("x", {}), ("y", {"split": NEVER}))
    )
    write.compare(left, right, rater="alice", choice="left", source="test")
    assert "Q?" not in str(texts(agent, "dpo", data_dir))


@pytest.mark.database
def test_judges_do_not_learn_from_it(agent):
    answers(agent, "usual")
    answers(agent, "secret", NEVER)
    known = Answers()
    read_opinions(agent, known)
    assert len(known.conversations) == 3


def test_every_kind_of_rows_is_tried():
    assert {method.rows.name for method in METHODS.values() if not method.rows.of_tasks} <= set(KINDS)
